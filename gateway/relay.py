"""The token buffer's shell: the engine's connection pushes bytes in, flushes are pushed out to the client.

The buffer says what leaves and when; the relay owns the clock and the deadlines. One wake-up a flush, none a token:

- What the engine sends is fed, and what is due is written, inside the call that brought it: no task is switched.
- While one more token would only be held, the bytes of it are left in the kernel: nobody is woken for them. The alarm
  of the window reads them, in time for the oldest that can be among them.
- The task of the request sleeps until the end. It wakes in between only if the client's socket is full: then it waits,
  runs grow by merging, and above the high-water mark the engine is no longer read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.buffer import TokenBuffer
from gateway.errors import ClientTooSlow, EngineSilent, EngineStalled, GatewayError
from gateway.ticker import TICK, Alarm, Ticker
from gateway.upstream.client import EngineResponse

AFTER_END = 1.0
"""Seconds that an engine has to end its answer after its last event (`[DONE]`, or an error that needs one)."""

Write = Callable[[bytes], Awaitable[None] | None]
"""Writes whole events. None: they are written; else something to await until the client's socket takes more."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each thing may take, in seconds.

    Attributes:
        first_token: from the request's leaving to the engine's first event.
        gap: between two events of a stream.
        write: for as long as the client does not read.
        whole: for an answer that is not streamed.
    """

    first_token: float = 300.0
    gap: float = 60.0
    write: float = 30.0
    whole: float = 1800.0


def _nothing() -> None:
    """What an alarm does when its stream is over."""


class Relay:
    """One stream on its way from an engine to a client. It is the sink of the engine's answer.

    Args:
        buffer: what decides.
        response: the engine's answer, its head read; the relay pauses and resumes it.
        ticker: keeps the alarms of all windows.
        deadlines: see `Deadlines`.
        asked_at: when the engine was asked, on the loop's clock.
        cut: called with ClientTooSlow when the client has not read for too long; it must end the writer.
    """

    def __init__(
        self,
        buffer: TokenBuffer,
        response: EngineResponse,
        *,
        ticker: Ticker,
        deadlines: Deadlines,
        asked_at: float,
        cut: Callable[[GatewayError], None],
    ) -> None:
        self._buffer = buffer
        self._response = response
        self._ticker = ticker
        self._deadlines = deadlines
        self._cut = cut
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._waiter: asyncio.Future[None] | None = None
        self._write: Write | None = None  # until then the stream is being opened
        self._blocked: Awaitable[None] | None = None
        self._writing_since: float | None = None
        self._unsent: Callable[[], int] = int
        self._unread_by_client = 0
        self._paused = False
        self._unread = 0  # bytes from which on the engine's are read; fewer may be left in the kernel
        self._rest = 0.0  # seconds in which more of them are wanted then
        self._read_at = asked_at
        self._asked_at = asked_at
        self._last_event = asked_at
        self._fault: Exception | None = None
        self._alarm = Alarm(self._ring)
        self._watch_timer = self._loop.call_at(asked_at + deadlines.first_token, self._watch)
        response.attach(self)

    # The engine's side: plain calls from its connection.

    def received(self, data: bytes) -> None:
        """Takes what the engine sent."""
        now = self._now()
        buffer = self._buffer
        try:
            if buffer.feed(data, now, self._read_at if self._unread > 1 else None):
                self._last_event = now
            self._read_at = now
            if self._write is None or buffer.complete or buffer.error_seen:
                self._set_watch_timer(now)
                self._wake()
            if not self._paused and buffer.full:
                self._paused = True
                self._response.pause()
            self._flush(now)
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

    def ended(self, error: GatewayError | None) -> None:
        """Takes the end of the engine's answer, or ends it for the engine. Everything received still leaves first."""
        now = self._now()
        try:
            self._buffer.finish(now, error)
            self._wake()
            self._flush(now)
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

    # The client's side: the task of the request.

    async def opened(self) -> None:
        """Returns when the first event, or the end, is there."""
        buffer = self._buffer
        while not (buffer.has_event or buffer.ended or buffer.failure):
            await self._wait()

    async def pump(self, write: Write, unsent: Callable[[], int]) -> None:
        """Writes the stream to its end.

        Args:
            write: see `Write`.
            unsent: bytes that are written but that the client's socket has not taken yet.
        """
        self._write, self._unsent = write, unsent
        self._flush(self._now())
        while not self._buffer.ended or self._blocked is not None:
            if self._blocked is not None:
                await self._blocked
                self._unblock()
            else:
                await self._wait()
        self._writing_since = self._now()  # the end of the answer has to be read too

    def close(self) -> None:
        """Gives back the timers. The engine's answer is closed by whoever opened it."""
        self._watch_timer.cancel()
        self._ticker.cancel(self._alarm)
        self._alarm.ring = _nothing  # else it and this would refer to each other, and wait for the collector
        self._write = None

    # Where both sides meet.

    def _flush(self, now: float) -> None:
        """Writes what is due, unless the client's socket is full."""
        if self._write is None or self._blocked is not None:
            return
        buffer = self._buffer
        flush = buffer.take(now)
        if self._paused and not buffer.full:
            self._paused = False
            self._last_event = now  # the silence was ours
            self._response.resume()
        if flush:
            self._blocked = self._write(flush)
            if self._blocked is not None:
                self._writing_since = now
                self._unread_by_client = self._unsent()
                buffer.reader_busy = True
                self._wake()
                return
        if buffer.ended:
            self._wake()
        else:
            self._await_more()

    def _unblock(self) -> None:
        now = self._now()
        self._blocked = self._writing_since = None
        self._buffer.reader_busy = False
        self._flush(now)

    def _await_more(self) -> None:
        """Sets the alarm, and says which bytes are worth a wake-up before it rings."""
        buffer = self._buffer
        unread = buffer.worth_reading
        rest = buffer.full_in if unread > 1 else 0.0
        if unread != self._unread or abs(rest - self._rest) > TICK / 4:
            self._unread, self._rest = unread, rest
            self._response.leave(unread, rest)
        due = buffer.wake_at()
        if unread > 1:
            look = self._read_at + buffer.delay
            due = look if due is None or look < due else due
        if due is None:
            self._ticker.cancel(self._alarm)
        else:
            self._ticker.set(self._alarm, due)

    def _ring(self) -> None:
        now = self._now()
        try:
            if self._unread > 1:
                self._response.look()  # comes in by `received`
                self._read_at = now
            self._flush(now)
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

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

    # Deadlines: one timer, which is set again only when it rings early.

    def _limit(self) -> tuple[float, Callable[[GatewayError | None], None], GatewayError | None]:
        """As things are: when patience ends, and what is done then."""
        limits, buffer = self._deadlines, self._buffer
        if self._writing_since is not None:
            error: GatewayError = ClientTooSlow("The client did not read for too long.")
            return self._writing_since + limits.write, self._cut_off, error
        if buffer.error_seen or buffer.complete:
            return self._last_event + AFTER_END, self._give_up, None
        if buffer.has_event:
            return self._last_event + limits.gap, self._give_up, EngineStalled("The engine fell silent in mid-stream.")
        error = EngineSilent("The engine gave no first token in time.")
        return self._asked_at + limits.first_token, self._give_up, error

    def _watch(self) -> None:
        now = self._now()
        if self._writing_since is not None and (unsent := self._unsent()) < self._unread_by_client:
            self._writing_since, self._unread_by_client = now, unsent  # slow, but the client reads
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
