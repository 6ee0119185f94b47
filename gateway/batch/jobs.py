"""Files and batches as values, and the states of a batch. Pure.

    validating ──> in_progress ──> finalizing ──> completed | expired
        │  │            │             └──> failed: its files cannot be written
        │  └────────────┴──> cancelling ──> cancelled
        └──> failed             └──> failed

Times are seconds of the epoch. The names and their meanings are OpenAI's:
https://platform.openai.com/docs/api-reference/batch
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

SETTLE_S = 600
"""Seconds that the running lines of a cancelled or expired batch have to finish; OpenAI names ten minutes."""

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings")
"""What a batch may ask for, where the gateway serves it."""


STORAGE_ERROR = "storage_error"
"""Code of the problem that files cannot be read or written. It is gone once they are, unless the batch has failed."""


KEY_GONE = "invalid_api_key"
"""Code of the problem that the key of a batch is revoked or has expired."""


class Purpose(StrEnum):
    """What a file is for."""

    BATCH = "batch"
    BATCH_OUTPUT = "batch_output"


class Status(StrEnum):
    """Where a batch is."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


OVER = frozenset({Status.FAILED, Status.COMPLETED, Status.EXPIRED, Status.CANCELLED})
"""States that a batch does not leave."""


class LineState(StrEnum):
    """Where a line is; each but the first is final."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "batch_expired"
    CANCELLED = "batch_cancelled"


@dataclass(frozen=True, slots=True)
class File:
    """A file. `owner` is the id of the key that made it, None while there are no keys."""

    id: str
    owner: str | None
    filename: str
    purpose: Purpose
    size: int
    created_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a batch failed: OpenAI's `errors.data`. `line` counts from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the answers of a batch state."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch.

    `seq` is its place among all batches. `total`, `completed` and `failed` count lines. `output_ttl` is the life in
    seconds of its output files. `ending` is what it will be once its files are written, empty until that is known; a
    failed batch has it while its files are not written.
    """

    seq: int
    id: str
    owner: str | None
    endpoint: str
    input_file_id: str
    completion_window: str
    status: Status
    created_at: int
    expires_at: int
    output_ttl: int | None = None
    metadata: Mapping[str, str] | None = None
    model: str | None = None
    problems: tuple[Problem, ...] = ()
    output_file_id: str | None = None
    error_file_id: str | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    usage: Usage = Usage()
    ending: str = ""
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None

    @property
    def over(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.status in OVER


@dataclass(frozen=True, slots=True)
class NewLine:
    """A line of a valid input file: where it stands in the file, in bytes, and what it shares with others."""

    number: int
    custom_id: str
    start: int
    length: int
    prefix: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was given to this gateway to run. `attempts` counts those that failed, `owner` is the batch's."""

    batch: int
    number: int
    custom_id: str
    start: int
    length: int
    attempts: int
    input_file_id: str
    endpoint: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a line: the line of the output or error file, as JSON without its line end."""

    state: LineState
    output: bytes
    usage: Usage = Usage()
