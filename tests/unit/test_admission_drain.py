"""When a refused client is told to come back."""

import pytest

from gateway.admission.drain import LONGEST, SHORTEST, UNMEASURED, DrainRate


def test_as_many_slots_come_free_as_run_over_the_time_each_is_held() -> None:
    drain = DrainRate()
    for _ in range(10):
        drain.record(8.0)
    assert drain.rate(running=32) == pytest.approx(4.0)
    assert drain.retry_after(places=20, running=32) == pytest.approx(5.0)


def test_a_lane_that_nothing_left_yet_supposes_short_answers() -> None:
    assert DrainRate().retry_after(places=4, running=4) == UNMEASURED


def test_the_time_to_wait_has_bounds_that_clients_respect() -> None:
    drain = DrainRate()
    drain.record(0.0)
    assert drain.retry_after(places=1, running=32) == SHORTEST
    slow = DrainRate()
    slow.record(3600.0)
    assert slow.retry_after(places=64, running=1) == LONGEST


def test_a_lane_where_nothing_runs_has_a_time_too() -> None:
    drain = DrainRate()
    drain.record(2.0)
    assert drain.retry_after(places=3, running=0) == pytest.approx(6.0)


def test_the_rate_follows_a_change_and_one_odd_request_does_not_turn_it() -> None:
    drain = DrainRate()
    for _ in range(50):
        drain.record(1.0)
    drain.record(9.0)
    assert drain.rate(running=1) > 0.6
    for _ in range(100):
        drain.record(10.0)
    assert drain.rate(running=1) == pytest.approx(0.1, rel=0.05)
