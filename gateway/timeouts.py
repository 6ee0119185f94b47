"""Timeouts of requests: one timer of the event loop for all that last equally long.

A timer of the event loop costs microseconds to set and to cancel, and of those that would end a request nearly every
one is cancelled. They come in a few lengths, which the settings say, and those of one length end in the order in which
they began. So one is an entry in a dict here, and the loop has one timer a length, for the oldest.
"""

import asyncio
from collections.abc import Callable

LATE = 0.001
"""Seconds after its time in which a timer is set, so that it never seems to come just before it: it would be set again
at once, and the loop would go round without a rest. One millisecond is what uvloop's clock counts in."""


class Timeouts:
    """The timeouts of one event loop.

    Args:
        loop: the loop; its clock counts.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lengths: dict[float, _Length] = {}

    def call_later(self, seconds: float, call: Callable[[], None]) -> "Timeout":
        """Calls a function, which does not raise, after so many seconds; some milliseconds late, never early.

        Of different `seconds` there should be few: each has a timer of its own for as long as the process lives.
        """
        length = self._lengths.get(seconds)
        if length is None:
            length = self._lengths[seconds] = _Length(self._loop, seconds)
        return length.start(call)


class Timeout:
    """A call that is to come."""

    __slots__ = ("_others", "at", "call")

    def __init__(self, at: float, call: Callable[[], None], others: "dict[Timeout, None]") -> None:
        self.at = at
        self.call = call
        self._others = others

    def cancel(self) -> None:
        """Lets it not come. Idempotent, and nothing is held after it."""
        self._others.pop(self, None)


class _Length:
    """The timeouts of one length."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._running: dict[Timeout, None] = {}  # the oldest first
        self._is_set = False

    def start(self, call: Callable[[], None]) -> Timeout:
        timeout = Timeout(self._loop.time() + self._seconds, call, self._running)
        self._running[timeout] = None
        if not self._is_set:
            self._set(timeout.at)
        return timeout

    def _set(self, at: float) -> None:
        self._is_set = True
        self._loop.call_at(at + LATE, self._ring)

    def _ring(self) -> None:
        self._is_set = False
        now = self._loop.time()
        while self._running:
            oldest = next(iter(self._running))
            if oldest.at > now:
                self._set(oldest.at)
                return
            del self._running[oldest]
            oldest.call()
