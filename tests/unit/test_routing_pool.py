"""The engines of a lane, and the leases on them."""

import pytest

from gateway.errors import NoEngine
from gateway.routing.breaker import Breaker, EngineOutcome
from gateway.routing.policies import LeastBusy
from gateway.routing.pool import Engine, EnginePool


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def engine(name: str, size: int = 2) -> Engine:
    return Engine(name, f"http://{name}:8000", pool_size=size, api_key="sk-secret")


def pool(*engines: Engine, clock: Clock | None = None) -> EnginePool:
    return EnginePool("lowlatency", engines, LeastBusy(), clock or Clock())


def out(engine: Engine, now: float = 0.0) -> Engine:
    engine.breaker.record(EngineOutcome.UNREACHABLE, now)
    return engine


def test_a_lease_counts_once_and_is_given_back_once() -> None:
    a = engine("a")
    lease = pool(a).lease()
    assert (lease.engine, a.in_flight) == (a, 1)
    lease.release(EngineOutcome.SUCCESS)
    lease.release(EngineOutcome.SUCCESS)
    assert a.in_flight == 0


def test_an_engine_never_has_more_requests_than_connections() -> None:
    """Case H51 and case H53: nothing waits for a connection."""
    a, b = engine("a", size=1), engine("b", size=2)
    lane = pool(a, b)
    for _ in range(3):
        lane.lease()
    assert (a.in_flight, b.in_flight) == (1, 2)
    with pytest.raises(NoEngine) as caught:
        lane.lease()
    assert caught.value.retry_after == 1.0


def test_a_lane_whose_engines_are_being_warmed_says_so_and_asks_for_more_patience() -> None:
    cold = out(engine("a"))
    cold.warming = "3 of 9 bursts"
    with pytest.raises(NoEngine, match="warmed up") as caught:
        pool(cold).lease()
    assert caught.value.retry_after == 5.0


def test_sick_and_excluded_engines_are_not_asked() -> None:
    """Case H10: another try goes to an engine that the request has not tried."""
    a, b, c = engine("a"), out(engine("b")), engine("c")
    assert pool(a, b, c).lease(exclude=[a]).engine is c
    with pytest.raises(NoEngine, match="lowlatency"):
        pool(a, b, c).lease(exclude={a, c})


def test_without_an_engine_the_time_to_come_back_is_that_of_the_next_probe() -> None:
    clock = Clock()
    a, b = out(engine("a")), out(engine("b"))
    for sick in (a, b):
        for _ in range(4):
            sick.breaker.probe_failed(0.0)
    b.breaker.probe_failed(0.0)
    lane = pool(a, b, clock=clock)
    assert lane.retry_after() == 16.0
    clock.now = 15.9
    assert lane.retry_after() == 1.0


def test_the_outcome_of_a_lease_reaches_the_breaker_of_its_engine() -> None:
    a, b = engine("a"), engine("b")
    lane = pool(a, b)
    for _ in range(3):
        lane.lease(exclude=[b]).release(EngineOutcome.FAILURE)
    assert (a.healthy, b.healthy) == (False, True)


def test_a_lease_given_back_without_a_word_says_nothing_of_the_engine() -> None:
    a = engine("a")
    for _ in range(10):
        pool(a).lease().release()
    assert a.healthy
    assert a.in_flight == 0


def test_leases_of_before_an_outage_do_not_take_out_the_engine_that_came_back() -> None:
    a = engine("a", size=32)
    lane = pool(a)
    stalled = [lane.lease() for _ in range(10)]
    lane.lease().release(EngineOutcome.UNREACHABLE)
    a.breaker.probe_succeeded(3.0)
    for lease in stalled:
        lease.release(EngineOutcome.FAILURE)
    assert a.healthy
    assert a.in_flight == 0


def test_the_capacity_is_that_of_the_engines_that_may_be_asked() -> None:
    a, b = engine("a", size=32), engine("b", size=16)
    lane = pool(a, b)
    lane.lease()
    assert lane.capacity() == 48
    out(a)
    assert lane.capacity() == 16


def test_an_engine_in_two_lanes_has_one_count_and_one_breaker() -> None:
    shared = engine("shared", size=2)
    chat, batch = pool(shared), pool(shared)
    chat.lease()
    batch.lease()
    with pytest.raises(NoEngine):
        chat.lease()
    out(shared)
    assert chat.capacity() == batch.capacity() == 0


def test_an_unproven_engine_gets_no_traffic() -> None:
    a = Engine("a", "http://a:8000", breaker=Breaker(unproven=True))
    with pytest.raises(NoEngine):
        pool(a).lease()


def test_a_pool_shows_its_counts_and_never_a_key() -> None:
    a, b = engine("a"), out(engine("b"))
    lane = pool(a, b)
    lane.lease()
    assert repr(lane) == "<EnginePool 'lowlatency' (a 1/2 closed, b 0/2 open)>"
    assert "sk-secret" not in repr(a)
