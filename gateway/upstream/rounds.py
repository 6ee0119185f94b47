"""Streams of engines are read in rounds: one wake-up for all whose tokens came within a tick.

A wake-up of the process costs more than what is done in it, and streams whose tokens come one by one ask for one each.
Tokens that would be held anyway can wait for the others': while wake-ups are frequent, the streams' sockets are looked
at once a tick, in the wake-up that rings the windows' alarms. While they are rare the event loop is told of them at
once. What waits longest is read first, and the event loop has its turn after every `TURN` streams, so that streams
that never rest keep nobody from beginning.
"""

import asyncio
import select
from collections.abc import Callable

from gateway.ticker import TICK, Alarm, Ticker

TURN = 16
"""Streams that are read before the event loop has its turn."""

LOOKED_AT = 16
"""Wake-ups by which the pace is judged."""


class Rounds:
    """The sockets that are read in rounds. Made inside a running event loop."""

    def __init__(self, ticker: Ticker) -> None:
        self._loop = asyncio.get_running_loop()
        self._ticker = ticker
        self._alarm = Alarm(self._turn)
        self._sockets = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._by_ticks = self._watching = False
        self._turns = self._reads = 0
        self._since = 0.0

    def join(self, fd: int, read: Callable[[], None]) -> None:
        """Calls `read`, which does not raise, when there is something to read, be it the end, for as long as there is."""
        self._readers[fd] = read
        self._sockets.register(fd, select.EPOLLIN)
        if not self._by_ticks and not self._watching:
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
        self._ticker.cancel(self._alarm)
        if self._watching:
            self._loop.remove_reader(self._sockets.fileno())
        self._by_ticks = self._watching = False

    def _turn(self) -> None:
        ready = self._sockets.poll(0, TURN)
        for fd, _ in ready:
            read = self._readers.get(fd)
            if read is not None:  # else it left while the others were read
                read()
        self._turns += 1
        self._reads += len(ready)
        if self._turns >= LOOKED_AT:
            self._choose(self._loop.time())
        if self._by_ticks:
            if len(ready) < TURN:
                self._ticker.set(self._alarm, self._loop.time())
            else:
                self._loop.call_soon(self._more)

    def _more(self) -> None:
        if self._by_ticks:
            self._turn()

    def _choose(self, now: float) -> None:
        """By ticks where that saves half of the wake-ups; the event loop's where it would save none."""
        ticks = (now - self._since) / TICK
        if not self._by_ticks and self._readers and self._turns > 2 * ticks:
            self._loop.remove_reader(self._sockets.fileno())
            self._by_ticks, self._watching = True, False
        elif self._by_ticks and self._reads < ticks / 2:
            self._ticker.cancel(self._alarm)
            self._watch(now)
        self._turns = self._reads = 0
        self._since = now

    def _watch(self, now: float) -> None:
        self._by_ticks, self._watching = False, True
        self._loop.add_reader(self._sockets.fileno(), self._turn)
        self._turns = self._reads = 0
        self._since = now
