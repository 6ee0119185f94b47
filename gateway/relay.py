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

from gateway.buffer import TokenBuffer
from gateway.errors import ClientTooSlow, GatewayError
from gateway.ticker import TICK, Alarm, Ticker
from gateway.upstream.client import EngineResponse
from gateway.watch import Deadlines, Watch

__all__ = ["Deadlines", "Relay", "Write"]

SAME_REST = TICK / 4
"""Seconds by which the rest of a window may change before it is told again."""

Write = Callable[[bytes], Awaitable[None] | None]
"""Writes whole events. None: they are written; else something to await until the client's socket takes more."""


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
        self._watch = Watch(deadlines, asked_at)
        self._cut = cut
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._waiter: asyncio.Future[None] | None = None
        self._write: Write | None = None  # until then the stream is being opened
        self._blocked: Awaitable[None] | None = None
        self._unsent: Callable[[], int] = int
        self._paused = False
        self._unread = 0  # bytes from which on the engine's are read; fewer may be left in the kernel
        self._rest = 0.0  # seconds in which more of them are wanted then
        self._read_at = asked_at
        self._fault: Exception | None = None
        self._alarm = Alarm(self._ring)
        self._watch_timer: asyncio.TimerHandle | None = None
        response.attach(self)

    # The engine's side: plain calls from its connection.

    def received(self, data: bytes) -> None:
        """Takes what the engine sent."""
        now = self._now()
        buffer = self._buffer
        try:
            if buffer.feed(data, now, self._read_at if self._unread > 1 else None):
                self._watch.last_event = now
            self._read_at = now
            if self._write is None or buffer.complete or buffer.error_seen:
                self._wake()
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
                self._keep_watch()
                await self._blocked
                self._unblock()
            else:
                await self._wait()
        self._watch.wrote(self._now(), self._unsent())  # the end of the answer has to be read too
        self._keep_watch()

    def close(self) -> None:
        """Gives back the timers. The engine's answer is closed by whoever opened it."""
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        self._ticker.cancel(self._alarm)
        self._alarm.ring = _nothing  # else it and this would refer to each other, and wait for the collector
        self._write = None

    # Where both sides meet.

    def _flush(self, now: float) -> None:
        """Writes what is due. Where nothing can be written, the engine is not read once too much waits."""
        buffer = self._buffer
        if self._write is None or self._blocked is not None:
            if buffer.full and not self._paused:
                self._paused = True
                self._response.pause()
            return
        flush = buffer.take(now)
        if self._paused and not buffer.full:
            self._paused = False
            self._watch.last_event = now  # the silence was ours
            self._response.resume()
        if flush:
            self._blocked = self._write(flush)
            if self._blocked is not None:
                self._watch.wrote(now, self._unsent())
                buffer.reader_busy = True
                self._wake()
                return
        if buffer.ended:
            self._wake()
        else:
            self._await_more()

    def _unblock(self) -> None:
        now = self._now()
        self._blocked = self._watch.writing_since = None
        self._buffer.reader_busy = False
        self._flush(now)

    def _await_more(self) -> None:
        """Sets the alarm, and says which bytes are worth a wake-up before it rings."""
        buffer = self._buffer
        unread, rest = buffer.may_wait()
        if unread != self._unread or abs(rest - self._rest) > SAME_REST:
            self._unread, self._rest = unread, rest
            self._response.leave(unread, rest)
        due = buffer.wake_at()
        if due is None and unread > 1:
            due = self._read_at + buffer.delay  # else what is held is older than what can be in the kernel
        if due is None:
            self._ticker.cancel(self._alarm)
        else:
            self._ticker.set(self._alarm, due)

    def _ring(self) -> None:
        now = self._now()
        try:
            if self._unread > 1:
                self._response.look()
                if self._read_at >= now:
                    return  # something was there: it came in by `received`, which has written what is due
                self._read_at = now
            self._flush(now)
        except Exception as fault:  # noqa: BLE001 - see `_fail`
            self._fail(fault)

    async def _wait(self) -> None:
        if self._fault is None:
            self._keep_watch()
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

    # Deadlines: one timer, set by the task before it waits, and again where it rings early.

    def _keep_watch(self) -> None:
        """Sets the timer, unless it rings early enough."""
        when, timer = self._watch.next_look(self._buffer, self._now()), self._watch_timer
        if timer is None or timer.when() > when:
            if timer is not None:
                timer.cancel()
            self._watch_timer = self._loop.call_at(when, self._look_at_watch)

    def _look_at_watch(self) -> None:
        self._watch_timer = None
        now = self._now()
        self._watch.look(now, self._unsent())
        ends, error = self._watch.ends(self._buffer)
        if now < ends:
            self._keep_watch()
        elif isinstance(error, ClientTooSlow):
            self._cut(error)
        else:
            self._response.close()
            self.ended(error)
