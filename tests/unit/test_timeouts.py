"""One timer for all timeouts of a length."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gateway.timeouts import LATE, Timeouts


class Loop:
    """A loop whose clock is moved by the test, and which knows its timers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.set_timers = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> None:
        self.timers.append((when, call))
        self.set_timers += 1

    def go(self, seconds: float) -> None:
        """Moves the clock, timer by timer."""
        until = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= until]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now = first[0]
            first[1]()
        self.now = until


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def timeouts(loop: Any) -> Timeouts:
    return Timeouts(loop)


def test_each_call_comes_after_its_time_and_not_before(loop: Loop, timeouts: Timeouts) -> None:
    late: list[float] = []

    def note(due: float) -> None:
        late.append(loop.now - due)

    for _ in range(20):
        for seconds in (0.5, 0.3, 5.0):
            timeouts.call_later(seconds, partial(note, loop.now + seconds))
        loop.go(0.07)
    loop.go(10)
    assert len(late) == 60
    assert all(0 <= each <= 2 * LATE for each in late)


def test_a_cancelled_call_does_not_come_and_the_others_do(loop: Loop, timeouts: Timeouts) -> None:
    called: list[int] = []
    started = [timeouts.call_later(1.0, partial(called.append, n)) for n in range(5)]
    for n in (0, 3):
        started[n].cancel()
        started[n].cancel()
    loop.go(2)
    assert called == [1, 2, 4]
    started[1].cancel()


def test_many_requests_that_end_in_time_set_one_timer_a_length_and_not_one_each(loop: Loop, timeouts: Timeouts) -> None:
    for _ in range(1000):
        timeout = timeouts.call_later(1.0, pytest.fail)
        loop.go(0.01)
        timeout.cancel()
    assert loop.set_timers <= 11


def test_a_call_may_start_and_cancel_others(loop: Loop, timeouts: Timeouts) -> None:
    called: list[str] = []

    def first() -> None:
        called.append("first")
        second.cancel()
        timeouts.call_later(1.0, lambda: called.append("third"))

    timeouts.call_later(1.0, first)
    second = timeouts.call_later(1.0, lambda: called.append("second"))
    loop.go(1.5)
    assert called == ["first"]
    loop.go(1)
    assert called == ["first", "third"]


def test_nothing_is_waited_for_when_all_are_cancelled(loop: Loop, timeouts: Timeouts) -> None:
    timeouts.call_later(1.0, pytest.fail).cancel()
    loop.go(5)
    assert not loop.timers
