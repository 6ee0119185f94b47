"""What the library reports: events, and the protocol of who listens.

The library counts nothing itself and reports never more than a handful of events a request; what happens per token is
added up in the request's own `StreamStats` and reported once, when the stream has ended.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

ITL_BUCKETS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2, 0.4, 1.0, 5.0)
"""Upper bounds in seconds of the inter-token latency histogram; one more bucket holds what is above."""

TOKENS_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""Upper bounds of the tokens-a-flush histogram; one more bucket holds what is above."""


class FlushReason(StrEnum):
    """Why text left the buffer."""

    FIRST = "first"  # the first token of a choice never waits
    TOKENS = "tokens"  # the window is full
    DELAY = "delay"  # the oldest token is as old as the window allows
    LONE = "lone"  # no other token is expected in time: waiting would be in vain
    BOUNDARY = "boundary"  # change of kind, finish, usage, an event that is not understood
    END = "end"  # the stream is over
    PASS = "pass"  # noqa: S105 - a name, not a secret: the strategy holds nothing


class Outcome(StrEnum):
    """How a request ended, as it is counted."""

    OK = "ok"
    CLIENT_ERROR = "client_error"  # refused for what it says, here or by the engine (4xx)
    REFUSED = "refused"  # lane full, no engine, draining
    ENGINE_ERROR = "engine_error"  # 5xx, broken, truncated, silent, stalled
    CLIENT_GONE = "client_gone"  # closed by the client, or cut because it did not read
    INTERNAL = "internal"  # our own fault


class WarmUpOutcome(StrEnum):
    """How the warm-up of an engine ended. All but `FAILED` let it in."""

    STEADY = "steady"  # its TTFT no longer changes
    OUT_OF_TIME = "out_of_time"  # it still does, but the time for it is over
    SKIPPED = "skipped"  # there is nothing to warm: it does not generate, or takes no such requests
    FAILED = "failed"  # it does not answer as it should


@dataclass(slots=True)
class StreamStats:
    """What one stream has seen. Times are of the caller's monotonic clock, in seconds.

    `tokens` counts what the engine said (token_ids, logprobs, usage) and else one an event with text.
    `itl` and `flush_tokens` hold counts per bucket, not cumulative, the last one for what is above all bounds.
    """

    events_in: int = 0
    events_out: int = 0
    tokens: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    flushes: dict[FlushReason, int] = field(default_factory=dict)
    flush_tokens: list[int] = field(default_factory=lambda: [0] * (len(TOKENS_BUCKETS) + 1))
    flush_tokens_sum: int = 0
    itl: list[int] = field(default_factory=lambda: [0] * (len(ITL_BUCKETS) + 1))
    itl_sum: float = 0.0


@dataclass(frozen=True, slots=True)
class KeyRefused:
    """A request was refused before it came to a lane.

    `reason`: the name of an error about keys, or the limit that is used up: `requests`, `tokens`, `parallel`.
    """

    reason: str


class RequestAdmitted(NamedTuple):
    """A request got its slot after `waited` seconds in the queue of `lane`."""

    lane: str
    waited: float


@dataclass(frozen=True, slots=True)
class RequestRetried:
    """A request that nothing was sent for was given to an engine again. `reason`: stale, unreachable, busy."""

    lane: str
    engine: str
    reason: str


@dataclass(frozen=True, slots=True)
class EngineHealthChanged:
    """An engine was taken out of its lane or brought back."""

    lane: str
    engine: str
    healthy: bool
    reason: str


@dataclass(frozen=True, slots=True)
class WarmUpBurst:
    """A burst of an engine's warm-up ended well: number `done` of `total`, of which there may become more.

    `ttft` is its 95th percentile in seconds.
    """

    engine: str
    done: int
    total: int
    concurrency: int
    prompt_tokens: int
    ttft: float


@dataclass(frozen=True, slots=True)
class WarmUpEnded:
    """The warm-up of an engine is over, after `seconds` and so many `bursts` that ended well.

    `first` and `steady` are the TTFT of the first and the last burst of the size that waited longest at first, in
    seconds; None where no burst ended well. `reason` says more where there is more to say.
    """

    engine: str
    outcome: WarmUpOutcome
    seconds: float
    bursts: int
    first: float | None
    steady: float | None
    reason: str


class LineOutcome(StrEnum):
    """What became of a line of a batch when it was run, or was not."""

    DONE = "done"
    FAILED = "failed"  # the engine refused it, or failed as often as it may
    AGAIN = "again"  # the engine failed; it is tried again
    LANE_DOWN = "lane_down"  # nobody could be asked; it waits
    KEY_GONE = "key_gone"  # its key is good no more; its batch is stopped
    EXPIRED = "expired"  # never run, the window is over
    CANCELLED = "cancelled"  # never run, its batch is cancelled


@dataclass(frozen=True, slots=True)
class BatchLines:
    """What became of so many lines of a batch."""

    outcome: LineOutcome
    count: int = 1


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """A batch is over. `status` is OpenAI's word: completed, failed, expired, cancelled."""

    status: str


class RequestEnded(NamedTuple):
    """A request is over, whichever way.

    `lane` and `engine` are empty where none was chosen. `status` is the HTTP status sent, 499 for a client that left.
    `duration`, `queued` and `ttft` are seconds; `ttft` runs from the request's arrival until its first token leaves;
    None where no token came. `overhead` is what the gateway itself took until it had something to send, neither queue
    nor engine; None where nothing was sent.
    """

    endpoint: str
    lane: str
    engine: str
    stream: bool
    status: int
    outcome: Outcome
    error: str
    duration: float
    queued: float
    ttft: float | None
    stats: StreamStats | None
    overhead: float | None = None


TelemetryEvent = (
    KeyRefused
    | RequestAdmitted
    | RequestRetried
    | EngineHealthChanged
    | WarmUpBurst
    | WarmUpEnded
    | BatchLines
    | BatchEnded
    | RequestEnded
)


class Observer(Protocol):
    """Whoever counts. It is called on the event loop: it must return at once and not raise."""

    def __call__(self, event: TelemetryEvent) -> None:
        """Takes one event."""


def ignore(event: TelemetryEvent) -> None:
    """The observer that counts nothing."""
