"""The token buffer's shell: the engine's connection pushes bytes in, the client's side takes flushes out.

The buffer says what leaves and when; the relay owns the clock, the one wake-up and the deadlines. Nothing here runs per
token but `received`: a feed, a question, and a wake-up only when something is due.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway.buffer import TokenBuffer
from gateway.errors import ClientTooSlow, EngineSilent, EngineStalled, GatewayError
from gateway.upstream.client import EngineResponse

AFTER_ERROR = 1.0
"""Seconds that an engine has for its `[DONE]` after an error event; then the stream is ended for it."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each thing may take, in seconds.

    Attributes:
        first_token: from the request's leaving to the engine's first event.
        gap: between two events of a stream. Comments count for neither: an engine that hangs may well send them.
        write: for as long as the client does not read.
        whole: for an answer that is not streamed.
    """

    first_token: float = 300.0
    gap: float = 60.0
    write: float = 30.0
    whole: float = 1800.0


class Relay:
    """One stream on its way from an engine to a client. It is the sink of the engine's answer.

    Args:
        buffer: what decides.
        response: the engine's answer, its head read; the relay pauses and resumes it.
        deadlines: see `Deadlines`.
        asked_at: when the engine was asked, on the loop's clock.
        cut: called with ClientTooSlow when the client has not read for too long; it must end the writer.
    """

    def __init__(
        self,
        buffer: TokenBuffer,
        response: EngineResponse,
        *,
        deadlines: Deadlines,
        asked_at: float,
        cut: Callable[[GatewayError], None],
    ) -> None:
        self._buffer = buffer
        self._response = response
        self._deadlines = deadlines
        self._cut = cut
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._opening = True
        self._waiter: asyncio.Future[None] | None = None
        self._writing_since: float | None = None
        self._paused = False
        self._asked_at = asked_at
        self._last_event = asked_at
        self._fault: Exception | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._watch_timer = self._loop.call_at(asked_at + deadlines.first_token, self._watch)
        response.attach(self)

    # The engine's side: plain calls from its connection.

    def received(self, data: bytes) -> None:
        """Takes what the engine sent."""
        now = self._now()
        buffer = self._buffer
        buffer.reader_busy = self._writing_since is not None
        events = buffer.stats.events_in
        try:
            buffer.feed(data, now)
            if buffer.stats.events_in != events:
                self._last_event = now
            if self._opening or buffer.error_seen:
                self._set_watch_timer(now)
            if buffer.full:
                self._paused = True
                self._response.pause()
            self._changed(now)
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

    def ended(self, error: GatewayError | None) -> None:
        """Takes the end of the engine's answer, or ends it for the engine. Everything received still leaves first."""
        now = self._now()
        try:
            self._buffer.finish(now, error)
            self._changed(now)
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

    # The client's side: one writer.

    async def opened(self) -> None:
        """Returns when the first event, or the end, is there."""
        while not (self._buffer.has_event or self._buffer.ended or self._buffer.failure):
            await self._wait()
        self._opening = False

    async def next_flush(self) -> bytes:
        """What is to be written next, as soon as it is due; empty at the end of the stream."""
        buffer = self._buffer
        self._writing_since = None
        buffer.reader_busy = False
        while True:
            now = self._now()
            if flush := buffer.take(now):
                self._writing_since = now
                self._read_on(now)
                return flush
            if buffer.ended:
                self._writing_since = now  # the end of the answer has to be read too
                return b""
            self._set_flush_timer()
            await self._wait()

    def close(self) -> None:
        """Gives back the timers. The engine's answer is closed by whoever opened it."""
        self._watch_timer.cancel()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # Where both sides meet.

    async def _wait(self) -> None:
        if self._fault is None:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._fault is not None:
            raise self._fault

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, fault: Exception) -> None:
        """A fault of this program in a plain call of the event loop: it is raised where the request has its owner.

        Raised here it would end the connection and be put down to the engine.
        """
        self._fault = fault
        self._response.close()
        self._wake()

    def _changed(self, now: float) -> None:
        if self._opening or self._buffer.ready(now) or self._buffer.ended:
            self._wake()
        elif self._writing_since is None:
            self._set_flush_timer()

    def _set_flush_timer(self) -> None:
        due, timer = self._buffer.wake_at(), self._flush_timer
        if timer is not None:
            if due is not None and timer.when() <= due:
                return  # it looks again when it rings
            timer.cancel()
        self._flush_timer = None if due is None else self._loop.call_at(due, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_timer = None
        try:
            self._changed(self._now())
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

    def _read_on(self, now: float) -> None:
        if self._paused and not self._buffer.full:
            self._paused = False
            self._last_event = now  # the silence was ours
            self._response.resume()

    # Deadlines: one timer, which is set again only when it rings early.

    def _limit(self) -> tuple[float, Callable[[GatewayError | None], None], GatewayError | None]:
        """As things are: when patience ends, and what is done then."""
        limits = self._deadlines
        if self._writing_since is not None:
            error: GatewayError = ClientTooSlow("The client did not read for too long.")
            return self._writing_since + limits.write, self._cut_off, error
        if self._buffer.error_seen:
            return self._last_event + AFTER_ERROR, self._give_up, None
        if self._buffer.has_event:
            return self._last_event + limits.gap, self._give_up, EngineStalled("The engine fell silent in mid-stream.")
        error = EngineSilent("The engine gave no first token in time.")
        return self._asked_at + limits.first_token, self._give_up, error

    def _watch(self) -> None:
        now = self._now()
        deadline, act, error = self._limit()
        if now >= deadline:
            act(error)
        else:
            self._set_watch_timer(now)

    def _set_watch_timer(self, now: float) -> None:
        deadline, _, _ = self._limit()
        self._watch_timer.cancel()
        self._watch_timer = self._loop.call_at(min(deadline, now + self._deadlines.write), self._watch)

    def _cut_off(self, error: GatewayError | None) -> None:
        self._cut(error or ClientTooSlow("The client did not read for too long."))

    def _give_up(self, error: GatewayError | None) -> None:
        self._response.close()
        self.ended(error)
