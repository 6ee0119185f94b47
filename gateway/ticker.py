"""One timer for the windows of all streams.

A timer of the event loop costs microseconds to set and to cancel, and a stream wants one for nearly every flush. Here
an alarm is an entry in a list: of the tick in which it rings. The loop has one timer, for the next tick that has
entries, and none while no stream waits. An alarm rings up to one tick late, never early.
"""

import asyncio
import heapq
from collections.abc import Callable

from gateway.timer import Timer, timer

TICK = 0.003
"""Seconds a tick: how late an alarm may ring, against how many streams share a wake-up."""

_EXACT = 0.001
"""Ticks by which a time may miss a tick's beginning in floating point and still be that."""


MakeTimer = Callable[[asyncio.AbstractEventLoop, Callable[[], None]], Timer]


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
        timer: makes the timer; see `gateway/timer.py`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timer: MakeTimer = timer) -> None:
        self._loop = loop
        self._ticks: dict[int, list[Alarm]] = {}
        self._order: list[int] = []  # a heap of the keys
        self._timer = timer(loop, self._ring)
        self._armed: int | None = None  # the tick that the timer is set to
        self._ringing = False

    def set(self, alarm: Alarm, when: float) -> None:
        """Lets the alarm ring at `when`, seconds of the loop's clock, instead of whatever it was set to."""
        tick = int(when / TICK + _EXACT) + 1
        if alarm.tick == tick:
            return
        alarm.tick = tick
        alarms = self._ticks.get(tick)
        if alarms is None:
            self._ticks[tick] = [alarm]
            heapq.heappush(self._order, tick)
            if self._order[0] == tick and not self._ringing:
                self._rearm()
        else:
            alarms.append(alarm)

    def cancel(self, alarm: Alarm) -> None:
        """Lets the alarm not ring. What is left of it here goes when its tick does."""
        alarm.tick = -1

    def close(self) -> None:
        """Gives back the timer; no alarm rings any more."""
        self._ticks.clear()
        self._order.clear()
        self._timer.close()

    def _rearm(self) -> None:
        armed = self._order[0] if self._order else None
        if armed != self._armed:
            self._armed = armed
            self._timer.set(None if armed is None else armed * TICK)

    def _ring(self) -> None:
        self._armed, self._ringing = None, True
        now = int(self._loop.time() / TICK + _EXACT)
        while self._order and self._order[0] <= now:
            tick = heapq.heappop(self._order)
            for alarm in self._ticks.pop(tick):
                if alarm.tick == tick:
                    alarm.tick = -1
                    alarm.ring()
        self._ringing = False
        self._rearm()
