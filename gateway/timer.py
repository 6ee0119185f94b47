"""A timer that is set again and again, for one call at a time.

A timer of the event loop is an object: each that is set and rings costs two more rounds of uvloop's loop, which closes
it, and uvloop counts whole milliseconds, so that many come too early. Linux has timers that are file descriptors
(timerfd_create(2)): one is made, the loop watches it, and to set it is one system call. Python knows them from 3.13 on;
until then they are asked for by ctypes.
"""

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from typing import Protocol

EARLY = 0.001
"""Seconds that uvloop's timers may come too early."""


class Timer(Protocol):
    """Calls a function, which does not raise, at a time."""

    def set(self, when: float | None) -> None:
        """Lets it ring at `when`, on the loop's clock, instead of whatever it was set to. None: not at all."""

    def close(self) -> None:
        """Rings no more."""


class LoopTimer:
    """By the event loop's own timers. It rings up to `EARLY` late, since the loop's may come so much too early."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self, when: float | None) -> None:
        """See `Timer.set`."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None if when is None else self._loop.call_at(when + EARLY, self._ring)

    def close(self) -> None:
        """See `Timer.close`."""
        self.set(None)


class _Moment(ctypes.Structure):
    """`struct itimerspec`: the interval of a timer that repeats itself, and when it rings; zeros are never."""

    _fields_ = [
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    ]


_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1


class DescriptorTimer:
    """By a timer descriptor of Linux, on the clock of asyncio and uvloop (CLOCK_MONOTONIC). Raises OSError."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._moment = _Moment()
        loop.add_reader(self._fd, self._rung)

    def set(self, when: float | None) -> None:
        """See `Timer.set`."""
        moment = self._moment
        moment.seconds, moment.nanoseconds = (0, 0) if when is None else divmod(int(when * 1e9), 10**9)
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(moment), None)

    def close(self) -> None:
        """See `Timer.close`."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _rung(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set anew meanwhile
            os.read(self._fd, 8)
            self._ring()


def timer(loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> Timer:
    """The best there is here."""
    return DescriptorTimer(loop, ring) if sys.platform == "linux" else LoopTimer(loop, ring)
