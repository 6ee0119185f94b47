"""Runs one line on the same path as a request, and says what that means for the line.

an answer                                   output file
the line's own mistake: 4xx of an engine    error file, with that answer
408, 5xx, broken, truncated, silent         tried again a bounded number of times, then error file
the key of the batch is good no more        the batch is stopped
no engine, lane full, 429, 503,             nothing was wrong with the line: the lane is waited for
unreachable, shutting down
"""

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from gateway.admission.choice import LaneNames
from gateway.batch.jobs import Line, LineState, Result
from gateway.batch.lines import body_of
from gateway.batch.objects import answered, unanswered, usage_of
from gateway.call import Call, read_call
from gateway.claim import BUSY
from gateway.errors import (
    EngineAnswered,
    EngineBroke,
    EngineError,
    EngineSilent,
    EngineStale,
    EngineUnreachable,
    GatewayError,
    KeyRejected,
    Refused,
    settle,
)
from gateway.gateway import Gateway
from gateway.keys.key import Key
from gateway.wire import render
from gateway.wire.whole import WholeAnswer

AGAIN = frozenset({408, *render.HIDDEN_FROM_CLIENTS})
"""Answers below 500 that are not the line's mistake: a timeout, and an engine that refuses the gateway's own key."""


@dataclass(frozen=True, slots=True)
class LaneDown:
    """The lane cannot be asked now; `retry_after` is what it said, in seconds."""

    retry_after: float | None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The engine failed with this line; another try may do better."""


@dataclass(frozen=True, slots=True)
class KeyGone:
    """The key that made the batch is revoked or has expired; `message` says so."""

    message: str


class Cut:
    """Ends the block with an error from outside, even before it has begun.

    The block sees a cancellation; what leaves it is the error.
    """

    def __init__(self) -> None:
        self._error: GatewayError | None = None
        self._block: asyncio.Task[object] | None = None

    def __call__(self, error: GatewayError) -> None:
        """Ends the block; the first error counts, and after the block it does nothing."""
        if self._error is None:
            self._error = error
            if self._block is not None:
                self._block.cancel()

    async def __aenter__(self) -> Self:
        if self._error is not None:
            raise self._error
        self._block = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        block, self._block = self._block, None
        if self._error is not None and block is not None:
            block.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise self._error from error


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs lines.

    `attempts` is how often a line is tried before its failure is final. `key_of` gives the key of an owner, for its
    lanes and models; it raises KeyRejected where that key is good no more.
    """

    gateway: Gateway
    lanes: LaneNames
    attempts: int = 3
    key_of: Callable[[str | None], Key | None] = lambda _: None

    async def run(self, line: Line, raw: bytes, cut: Cut) -> Result | LaneDown | TryAgain | KeyGone:
        """Runs a line of a valid file, once.

        Args:
            line: which one.
            raw: its bytes.
            cut: ends it from outside.
        """
        line_id, request_id = f"batch_req_{uuid.uuid4().hex}", f"req_{uuid.uuid4().hex}"
        try:
            answer = await self._fetch(self._call(line, raw, request_id), cut)
        except GatewayError as error:
            settle(error)
            if (later := self._later(line, error)) is not None:
                return later
            return Result(LineState.FAILED, _failed(line_id, line, request_id, error))
        output = answered(line_id, line.custom_id, answer.status, request_id, answer.body)
        return Result(LineState.DONE, output, usage_of(answer.body))

    def _call(self, line: Line, raw: bytes, request_id: str) -> Call:
        lane = self.lanes.batch
        return read_call(
            line.endpoint,
            body_of(raw),
            {"x-tokenlane-lane": lane},
            lanes=self.lanes,
            default=lane,
            request_id=request_id,
            key=self.key_of(line.owner),
        )

    async def _fetch(self, call: Call, cut: Cut) -> WholeAnswer:
        async with self.gateway.passage(call, cut) as passage, cut:
            answer = await passage.fetch()
            if not _is_json(answer.body):
                raise EngineBroke("The engine's answer is not JSON.")
        return answer

    def _later(self, line: Line, error: GatewayError) -> LaneDown | TryAgain | KeyGone | None:
        """Whether the line is to be run again; None where its failure is final."""
        if isinstance(error, KeyRejected):
            return KeyGone(str(error))
        if isinstance(error, Refused):
            return LaneDown(error.retry_after)
        if isinstance(error, EngineUnreachable | EngineStale):
            return LaneDown(None)
        if isinstance(error, EngineAnswered):
            if error.status in BUSY:
                return LaneDown(_seconds(error.retry_after))
            if error.status < 500 and error.status not in AGAIN:
                return None
        is_last = line.attempts + 1 >= self.attempts
        return TryAgain() if isinstance(error, EngineError) and not is_last else None


def _failed(line_id: str, line: Line, request_id: str, error: GatewayError) -> bytes:
    if isinstance(error, EngineSilent):
        return unanswered(line_id, line.custom_id, "request_timeout", str(error))
    answer = render.answer(error)
    return answered(line_id, line.custom_id, answer.status, request_id, answer.body)


def _is_json(body: bytes) -> bool:
    """Whether a line of JSON can hold it; Python's reading allows the NaN that some engines write."""
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _seconds(retry_after: str | None) -> float | None:
    return float(retry_after) if retry_after and retry_after.isdecimal() else None
