"""Streams of engines are read in rounds: one wake-up for all whose tokens came within a tick.

A wake-up of the process costs more than what is done in it, and streams whose tokens come one by one ask for one each.
Tokens that would be held anyway can wait for the others': while wake-ups are frequent, the streams' sockets are looked
at once a tick, in the wake-up that rings the windows' alarms. While they are rare the event loop is told of them at
once. What waits longest is read first, and the event loop has its turn after every `TURN` streams, so that streams
that never rest keep nobody from beginning.
"""

import asyncio
import select
from collections import deque
from collections.abc import Callable

from gateway.ticker import TICK, Alarm, Ticker

TURN = 16 * 1024
"""Bytes that are read before the event loop has its turn; the last read may exceed it."""

AT_ONCE = 64
"""Streams that are asked for in one system call."""

LOOKED_AT = 16
"""Wake-ups by which the pace is judged."""


MOST_RESTED = 3
"""Rounds that a socket may be left alone although there is something to read: an end waits as long."""


def rounds_of(rest: float) -> int:
    """How many rounds a socket is left alone, for more to come within `rest` seconds; 0 where that takes too long."""
    rounds = round(rest / TICK)
    return rounds if rounds <= MOST_RESTED else 0


class Rounds:
    """The sockets that are read in rounds. Made inside a running event loop.

    Attributes:
        by_ticks: there is a round a tick; else whenever there is something to read.
    """

    def __init__(self, ticker: Ticker) -> None:
        self._loop = asyncio.get_running_loop()
        self._ticker = ticker
        self._alarm = Alarm(self._turn)
        self._sockets = select.epoll()
        self._readers: dict[int, Callable[[], int]] = {}
        self._ready: deque[tuple[int, int]] = deque()  # found to be so, and not read yet: descriptor, event
        self.by_ticks = self._watching = self._going_on = False
        self._turns = self._reads = 0
        self._since = 0.0

    def join(self, fd: int, read: Callable[[], int]) -> None:
        """Calls `read` when there is something to read, be it the end, for as long as there is.

        `read` gives the bytes that it read and does not raise; it may be called when nothing is there, and may leave
        what is there for later.
        """
        self._readers[fd] = read
        self._sockets.register(fd, select.EPOLLIN)
        if not self.by_ticks and not self._watching:
            self._watch(self._loop.time())

    def leave(self, fd: int) -> None:
        """Calls it no more. To be called before the socket is closed."""
        if self._readers.pop(fd, None) is not None:
            self._sockets.unregister(fd)
            if not self._readers:
                self._stop()

    def close(self) -> None:
        """Reads nothing more."""
        self._stop()
        self._readers.clear()
        self._sockets.close()

    def _stop(self) -> None:
        self._ready.clear()
        self._ticker.cancel(self._alarm)
        if self._watching:
            self._loop.remove_reader(self._sockets.fileno())
        self.by_ticks = self._watching = False

    def _turn(self) -> None:
        room, ready, readers = TURN, self._ready, self._readers
        found = 0
        if not ready:
            ready.extend(self._sockets.poll(0, AT_ONCE))
            found = len(ready)
        waiting = len(ready)
        while ready and room > 0:
            fd, _ = ready.popleft()
            if fd in readers:  # else it left while the others were read
                room -= readers[fd]()
        self._reads += waiting - len(ready)
        self._turns += 1
        if self._turns >= LOOKED_AT:
            self._choose(self._loop.time())
        if ready or found == AT_ONCE or (room <= 0 and self.by_ticks):
            self._go_on()
        elif self.by_ticks:
            self._ticker.set(self._alarm, self._loop.time())

    def _go_on(self) -> None:
        """After the event loop has had its turn."""
        if not self._going_on:
            self._going_on = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._going_on = False
        if self._readers:
            self._turn()

    def _choose(self, now: float) -> None:
        """By ticks where that saves half of the wake-ups; the event loop's where it would save none."""
        ticks = (now - self._since) / TICK
        if not self.by_ticks and self._readers and self._turns > 2 * ticks:
            self._loop.remove_reader(self._sockets.fileno())
            self.by_ticks, self._watching = True, False
        elif self.by_ticks and self._reads < ticks / 2:
            self._ticker.cancel(self._alarm)
            self._watch(now)
        self._turns = self._reads = 0
        self._since = now

    def _watch(self, now: float) -> None:
        self.by_ticks, self._watching = False, True
        self._loop.add_reader(self._sockets.fileno(), self._turn)
        self._turns = self._reads = 0
        self._since = now
