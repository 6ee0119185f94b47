"""One timer for many alarms."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.ticker import TICK, Alarm, Ticker


class Handle:
    """A timer of the loop below."""

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """A loop whose clock is moved by the test, and which knows its timers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Handle] = []
        self.set_timers = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Handle:
        handle = Handle(when, call)
        self.timers.append(handle)
        self.set_timers += 1
        return handle

    def go(self, to: float) -> None:
        """Moves the clock, timer by timer."""
        while due := [t for t in self.timers if not t.cancelled and t.when <= to]:
            first = min(due, key=lambda t: t.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.call()
        self.now = to


class WholeMilliseconds(Loop):
    """Counts time as uvloop does: whole milliseconds, in the clock and in the delay of a timer."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.now = start / 1000
        self.milliseconds = start

    def call_at(self, when: float, call: Callable[[], None]) -> Handle:
        due = self.milliseconds + round((when - self.now) * 1000)
        return super().call_at(due / 1000, call)

    def tell(self) -> None:
        """Moves the clock to the next timer and lets it call."""
        first = min(self.timers, key=lambda t: t.when)
        self.timers.remove(first)
        self.milliseconds = round(first.when * 1000)
        self.now = self.milliseconds / 1000
        first.call()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def ticker(loop: Any) -> Ticker:
    return Ticker(loop)


def test_an_alarm_rings_once_not_early_and_a_tick_late_at_most(loop: Loop, ticker: Ticker) -> None:
    rung: list[float] = []
    for offset in (0.0001, 0.01, 0.0399, 0.04, 0.5):
        ticker.set(Alarm(lambda due=loop.now + offset: rung.append(loop.now - due)), loop.now + offset)
    loop.go(loop.now + 1)
    assert len(rung) == 5
    assert all(-1e-9 <= late <= TICK + 1e-9 for late in rung)


def test_a_clock_of_whole_milliseconds_does_not_make_the_loop_go_round_without_a_rest() -> None:
    """As fractions of a second its times may lie just before the tick that they are."""
    for start in range(0, 3000, 7):
        loop = WholeMilliseconds(start)
        ticker, rung = Ticker(loop), []  # type: ignore[arg-type, var-annotated]
        for number in range(5):
            ticker.set(Alarm(lambda rung=rung: rung.append(1)), loop.now + number * 0.0037)
            loop.tell()
            assert len(rung) == number + 1


def test_the_last_time_that_was_set_counts(loop: Loop, ticker: Ticker) -> None:
    rung: list[float] = []
    start = loop.now
    alarm = Alarm(lambda: rung.append(loop.now))
    ticker.set(alarm, start + 0.01)
    ticker.set(alarm, start + 0.05)
    loop.go(start + 0.04)
    assert not rung
    ticker.set(alarm, start + 0.045)
    loop.go(start + 1)
    assert len(rung) == 1
    assert start + 0.045 <= rung[0] <= start + 0.045 + TICK + 1e-9


def test_a_cancelled_alarm_does_not_ring_and_can_be_set_again(loop: Loop, ticker: Ticker) -> None:
    rung: list[float] = []
    alarm = Alarm(lambda: rung.append(loop.now))
    ticker.set(alarm, loop.now + 0.01)
    ticker.cancel(alarm)
    loop.go(loop.now + 0.1)
    assert not rung
    ticker.set(alarm, loop.now + 0.01)
    loop.go(loop.now + 0.1)
    assert len(rung) == 1


def test_many_alarms_of_one_tick_share_one_timer(loop: Loop, ticker: Ticker) -> None:
    rung: list[int] = []
    for number in range(500):
        ticker.set(Alarm(lambda number=number: rung.append(number)), loop.now + 0.0401)
    assert loop.set_timers == 1
    loop.go(loop.now + 0.1)
    assert rung == list(range(500))


def test_an_alarm_can_set_itself_again_while_it_rings(loop: Loop, ticker: Ticker) -> None:
    rung: list[float] = []

    def ring() -> None:
        rung.append(loop.now)
        if len(rung) < 3:
            ticker.set(alarm, loop.now + 0.01)

    alarm = Alarm(ring)
    ticker.set(alarm, loop.now)
    loop.go(loop.now + 1)
    assert len(rung) == 3


def test_alarms_that_were_put_off_wake_nobody(loop: Loop, ticker: Ticker) -> None:
    alarms = [Alarm(lambda: None) for _ in range(5)]
    for number, alarm in enumerate(alarms, start=1):
        ticker.set(alarm, loop.now + number / 100)
    for alarm in alarms[1:]:
        ticker.set(alarm, loop.now + 0.1)
    loop.go(loop.now + 1)
    assert loop.set_timers == 2


def test_alarms_that_are_set_while_others_ring_share_the_next_timer(loop: Loop, ticker: Ticker) -> None:
    later = [Alarm(lambda: None) for _ in range(3)]
    for number, alarm in enumerate(later):
        ticker.set(Alarm(lambda n=number, a=alarm: ticker.set(a, loop.now + 0.1 - n / 50)), loop.now)
    loop.go(loop.now + 0.01)
    assert loop.set_timers == 2


def test_without_alarms_there_is_no_timer(loop: Loop, ticker: Ticker) -> None:
    ticker.set(Alarm(lambda: None), loop.now + 0.01)
    loop.go(loop.now + 0.1)
    assert not [t for t in loop.timers if not t.cancelled]
    ticker.set(Alarm(lambda: None), loop.now + 0.01)
    ticker.close()
    assert not [t for t in loop.timers if not t.cancelled]


async def test_it_rings_on_a_real_loop() -> None:
    loop = asyncio.get_running_loop()
    ticker, rung = Ticker(loop), asyncio.Event()
    ticker.set(Alarm(rung.set), loop.time() + 0.005)
    async with asyncio.timeout(5):
        await rung.wait()
    ticker.close()
