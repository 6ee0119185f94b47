"""One timer for the windows of all streams.

A timer of the event loop costs microseconds to set and to cancel, and a stream wants one for nearly every flush. Here
an alarm is an entry in a list: of the tick in which it rings. The loop has one timer, for the next tick that has
entries, and none while no stream waits. An alarm rings up to TICK late, never early.

Ticks are counted in whole milliseconds, as uvloop's clock is: in fractions of a second a timer could seem to have come
just before its tick, would be set again at once, and the loop would go round without a rest until the next millisecond.
"""

import asyncio
import heapq
from collections.abc import Callable

TICK_MS = 3
"""Milliseconds a tick: how late an alarm may ring, against how many streams share a wake-up."""

TICK = TICK_MS / 1000
"""The same in seconds."""

_ROUNDING = 0.001
"""Milliseconds that a time may lack of a whole one, for being a fraction of a second."""


class Alarm:
    """Calls a function at about a time. It can be set again and again; the last time counts.

    Args:
        ring: a plain call, which does not raise.
    """

    __slots__ = ("ring", "tick")

    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring = ring
        self.tick = -1


class Ticker:
    """The alarms of one event loop.

    Args:
        loop: the loop; its clock is the one that alarms are set by.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ticks: dict[int, list[Alarm]] = {}
        self._order: list[int] = []  # a heap of the keys
        self._timer: asyncio.TimerHandle | None = None
        self._ringing = False

    def set(self, alarm: Alarm, when: float) -> None:
        """Lets the alarm ring at `when`, seconds of the loop's clock, instead of whatever it was set to."""
        tick = int(when * 1000 + _ROUNDING) // TICK_MS + 1
        if alarm.tick == tick:
            return
        ticks = self._ticks
        if (others := ticks.get(alarm.tick)) is not None:
            others.remove(alarm)
        alarm.tick = tick
        alarms = ticks.get(tick)
        if alarms is None:
            ticks[tick] = [alarm]
            heapq.heappush(self._order, tick)
            if self._order[0] == tick and not self._ringing:
                self._rearm()
        else:
            alarms.append(alarm)

    def cancel(self, alarm: Alarm) -> None:
        """Lets the alarm not ring."""
        if (alarms := self._ticks.get(alarm.tick)) is not None:
            alarms.remove(alarm)
        alarm.tick = -1

    def close(self) -> None:
        """Gives back the timer; no alarm rings any more."""
        self._ticks.clear()
        self._order.clear()
        self._rearm()

    def _rearm(self) -> None:
        order = self._order
        while order and not self._ticks[order[0]]:
            del self._ticks[heapq.heappop(order)]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(order[0] * TICK_MS / 1000, self._ring) if order else None

    def _ring(self) -> None:
        self._timer = None
        self._ringing = True
        now = int(self._loop.time() * 1000 + _ROUNDING) // TICK_MS
        order = self._order
        try:
            while order and order[0] <= now:
                tick = heapq.heappop(order)
                for alarm in self._ticks.pop(tick):
                    if alarm.tick == tick:  # else it was set again by one that rang before it
                        alarm.tick = -1
                        alarm.ring()
        finally:
            self._ringing = False
            self._rearm()
