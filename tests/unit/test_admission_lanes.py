"""Which lane goes next."""

from typing import NamedTuple

import pytest

from gateway.admission.lanes import Fifo, Reserve


class View(NamedTuple):
    """A lane in which somebody waits."""

    name: str
    running: int
    head: int
    waiting: int = 1


CHAT = View("chat", running=0, head=9)
BATCH = View("batch", running=3, head=1)
NIGHT = View("night", running=3, head=0)


def test_fifo_goes_by_arrival_alone() -> None:
    assert Fifo().choose([CHAT, BATCH], 1, 8) == "batch"
    assert Fifo().choose([CHAT], 1, 8) == "chat"


def test_the_interactive_lane_goes_first_however_late_it_came() -> None:
    assert Reserve("chat", 2).choose([BATCH, NIGHT, CHAT], 1, 8) == "chat"


@pytest.mark.parametrize(("free", "chosen"), [(1, None), (2, None), (3, "batch")])
def test_another_lane_takes_a_slot_only_while_more_than_the_reserve_are_free(free: int, chosen: str | None) -> None:
    assert Reserve("chat", 2).choose([BATCH], free, 8) == chosen


def test_of_the_other_lanes_the_one_that_waited_longest_goes_first() -> None:
    assert Reserve("chat", 2).choose([BATCH, NIGHT], 3, 8) == "night"


def test_a_lane_below_the_trickle_dips_into_the_reserve_and_one_above_does_not() -> None:
    policy = Reserve("chat", 4, trickle=2)
    assert policy.choose([View("batch", running=1, head=0)], 1, 8) == "batch"
    assert policy.choose([View("batch", running=2, head=0)], 1, 8) is None


def test_a_lane_in_the_reserve_does_not_hold_up_one_that_may_trickle() -> None:
    assert Reserve("chat", 4).choose([NIGHT, View("batch", running=0, head=1)], 1, 8) == "batch"


def test_without_a_trickle_an_idle_engine_still_serves() -> None:
    assert Reserve("chat", 8, trickle=0).choose([View("batch", running=0, head=0)], 8, 8) == "batch"
