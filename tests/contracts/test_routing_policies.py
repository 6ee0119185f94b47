"""What every routing policy has to keep, over the registry."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.policies import POLICIES, RoutingPolicy

MakePolicy = Callable[[], RoutingPolicy]


class View:
    """An engine with a load that a test can move."""

    def __init__(self, name: str, in_flight: int = 0, pool_size: int = 32) -> None:
        self.name = name
        self.in_flight = in_flight
        self.pool_size = pool_size

    def __repr__(self) -> str:
        return f"{self.name} {self.in_flight}/{self.pool_size}"


@st.composite
def fleets(draw: st.DrawFn) -> list[View]:
    """Engines that are not full."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    return [View(f"engine-{i}", draw(st.integers(0, size - 1)), size) for i, size in enumerate(sizes)]


keys = st.none() | st.text(st.characters(), max_size=20)


@pytest.fixture(params=POLICIES, ids=str)
def make(request: pytest.FixtureRequest) -> MakePolicy:
    return POLICIES[request.param]


def test_it_chooses_one_of_those_it_was_given_and_changes_none(make: MakePolicy) -> None:
    @given(st.lists(st.tuples(fleets(), keys), min_size=1, max_size=5))
    def holds(questions: list[tuple[list[View], str | None]]) -> None:
        policy = make()
        for engines, key in questions:
            before = repr(engines)
            chosen = policy.choose(engines, key)
            assert any(chosen is engine for engine in engines)
            assert repr(engines) == before

    holds()


def test_requests_that_stay_are_spread_so_that_no_engine_has_more_than_its_share_and_one(make: MakePolicy) -> None:
    policy, engines = make(), [View(f"engine-{i}") for i in range(4)]
    for _ in range(40):
        policy.choose(engines, None).in_flight += 1
    assert [engine.in_flight for engine in engines] == [10] * 4


def test_short_requests_take_turns_over_idle_engines(make: MakePolicy) -> None:
    policy, engines = make(), [View(f"engine-{i}") for i in range(3)]
    chosen = [policy.choose(engines, None).name for _ in range(6)]
    assert sorted(chosen[:3]) == sorted(chosen[3:]) == ["engine-0", "engine-1", "engine-2"]


def test_an_engine_that_comes_back_gets_no_more_than_its_turn(make: MakePolicy) -> None:
    policy, engines = make(), [View(f"engine-{i}") for i in range(3)]
    for _ in range(50):
        policy.choose(engines[:2], None)
    chosen = [policy.choose(engines, None).name for _ in range(30)]
    assert {chosen.count(engine.name) for engine in engines} == {10}


def test_one_key_cannot_fill_an_engine_while_another_is_idle(make: MakePolicy) -> None:
    policy, engines = make(), [View("engine-0"), View("engine-1")]
    for _ in range(32):
        policy.choose(engines, "the same conversation").in_flight += 1
    assert max(engine.in_flight for engine in engines) <= 21
