"""Who is told of what happens, and what a failing one may cost."""

import structlog

from app.observers import Observers
from gateway.telemetry import BatchEnded, KeyRefused, TelemetryEvent


class Heard(list[TelemetryEvent]):
    """An observer that keeps what it is told."""

    def __call__(self, event: TelemetryEvent) -> None:
        self.append(event)


def fail(event: TelemetryEvent) -> None:
    raise ValueError("it cannot count")


def test_an_observer_is_told_of_the_kinds_it_names_and_one_that_names_none_of_all() -> None:
    some, every = Heard(), Heard()
    observers = Observers()
    observers.add(some, KeyRefused)
    observers.add(every)
    events: list[TelemetryEvent] = [KeyRefused("requests"), BatchEnded("completed"), KeyRefused("tokens")]
    for event in events:
        observers(event)
    assert some == [events[0], events[2]]
    assert every == events


def test_an_observer_that_comes_later_is_told_from_then_on() -> None:
    told = Heard()
    observers = Observers()
    observers(KeyRefused("requests"))
    observers.add(told)
    observers(KeyRefused("tokens"))
    assert told == [KeyRefused("tokens")]


def test_an_observer_that_fails_costs_a_line_in_the_log_and_the_others_are_told() -> None:
    told = Heard()
    observers = Observers()
    observers.add(fail)
    observers.add(told)
    with structlog.testing.capture_logs() as lines:
        observers(KeyRefused("requests"))
    assert len(told) == 1
    assert [line["event"] for line in lines] == ["an observer failed"]
