"""What every lane policy has to keep, over the registry."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.lanes import POLICIES, LanePolicy

LANES = ("chat", "batch", "night")


class View(NamedTuple):
    """A lane in which somebody waits."""

    name: str
    waiting: int
    running: int
    head: int


class Question(NamedTuple):
    """The arguments of `choose`."""

    waiting: Sequence[View]
    free: int
    total: int


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """What a gate can ask: lanes in which somebody waits, and at least one free slot."""
    names = draw(st.lists(st.sampled_from(LANES), min_size=1, max_size=3, unique=True))
    heads = draw(st.lists(st.integers(0, 1000), min_size=len(names), max_size=len(names), unique=True))
    views = [
        View(name, draw(st.integers(1, 64)), draw(st.integers(0, 32)), head)
        for name, head in zip(names, heads, strict=True)
    ]
    free = draw(st.integers(1, 32))
    return Question(views, free, free + sum(view.running for view in views) + draw(st.integers(0, 8)))


@pytest.fixture(params=[(name, reserve) for name in POLICIES for reserve in (0, 4, 1000)], ids=str)
def policy(request: pytest.FixtureRequest) -> LanePolicy:
    name, reserve = request.param
    return POLICIES[name]("chat", reserve)


def test_it_names_a_lane_that_waits_or_nobody_and_says_the_same_when_asked_again(policy: LanePolicy) -> None:
    @given(questions())
    def holds(question: Question) -> None:
        chosen = policy.choose(*question)
        assert chosen is None or chosen in {view.name for view in question.waiting}
        assert policy.choose(*question) == chosen

    holds()


def test_an_idle_gate_always_admits_somebody(policy: LanePolicy) -> None:
    @given(questions())
    def holds(question: Question) -> None:
        idle = [view._replace(running=0) for view in question.waiting]
        assert policy.choose(idle, question.free, question.free) is not None

    holds()


def test_the_interactive_lane_is_never_kept_from_a_free_slot_when_it_waits_alone(policy: LanePolicy) -> None:
    @given(st.integers(0, 32), st.integers(1, 32), st.integers(0, 32))
    def holds(running: int, free: int, others: int) -> None:
        assert policy.choose([View("chat", 1, running, 0)], free, free + running + others) == "chat"

    holds()


def test_a_lane_that_waits_and_runs_nothing_gets_a_slot_that_the_interactive_lane_leaves(policy: LanePolicy) -> None:
    """Case H67: no batch waits for ever while there is room."""

    @given(st.integers(1, 32), st.integers(0, 32))
    def holds(free: int, others: int) -> None:
        assert policy.choose([View("batch", 1, 0, 0)], free, free + others) == "batch"

    holds()


def test_of_two_lanes_that_are_alike_to_it_the_one_that_waited_longer_goes_first(policy: LanePolicy) -> None:
    batch, night = View("batch", 1, 0, 5), View("night", 1, 0, 4)
    assert policy.choose([batch, night], 32, 32) == "night"
    assert policy.choose([night, batch], 32, 32) == "night"
