"""How many lines may begin: alone in their lane, and among the other requests of a lane that is paced as a whole."""

import asyncio

import pytest

from gateway.admission.gate import Gate, LaneLimits
from gateway.admission.lanes import Fifo
from gateway.batch.pace import Common, Own
from gateway.pacing.pace import Pacing, Signs
from gateway.pacing.pacer import LOOK_S, PAUSED_S, Pacer, keep
from gateway.pacing.streams import Sample


class Lane:
    """An interactive lane as it is told, a clock that a test sets, and a gate with one lane for batch work."""

    def __init__(self, ceiling: int = 8) -> None:
        self.now = 0.0
        self.signs = Signs()
        self.pacer = Pacer(Pacing(ceiling), lambda: self.signs, lambda: self.now)
        self.gate = Gate("single", 32, {"batch": LaneLimits()}, Fifo(), lambda: self.now)
        self.gate.keep("batch", self.pacer)

    def grown(self, limit: int) -> "Lane":
        """After a while in which nobody was there."""
        while self.pacer.limit < limit:
            self.now += 1.0
            self.pacer.look(self.pacer.limit)
        return self

    def take(self, count: int) -> None:
        for _ in range(count):
            with pytest.raises(StopIteration):
                self.gate.acquire("batch").send(None)


def test_lines_that_are_alone_in_their_lane_may_all_begin_that_the_pacing_allows() -> None:
    lane = Lane().grown(5)
    assert Own(lane.pacer).room(2) == lane.pacer.limit - 2


def test_lines_fill_what_the_other_requests_of_the_lane_leave() -> None:
    lane = Lane().grown(6)
    pace = Common(lane.pacer, lane.gate, "batch", most=8)
    lane.gate.look("batch")
    limit = lane.pacer.limit
    lane.take(2)
    assert pace.room(0) == limit - 2
    assert pace.room(2) == limit - 2
    assert pace.room(limit) == 0


def test_one_line_stands_in_the_queue_of_a_lane_that_others_fill() -> None:
    """Case H67: batch work of any kind goes on."""
    lane = Lane().grown(4)
    lane.gate.look("batch")
    lane.take(lane.pacer.limit)
    pace = Common(lane.pacer, lane.gate, "batch", most=8)
    assert [pace.room(running) for running in (0, 1)] == [1, 0]


def test_the_ceiling_of_lines_holds_within_that_of_the_lane() -> None:
    lane = Lane().grown(6)
    pace = Common(lane.pacer, lane.gate, "batch", most=2)
    assert (pace.room(0), pace.room(1), pace.room(2), pace.limit) == (2, 1, 0, 2)


def test_no_line_begins_while_a_stream_is_let_go_first_and_the_pace_is_asked_again_soon() -> None:
    lane = Lane()
    pace = Common(lane.pacer, lane.gate, "batch", most=8)
    lane.signs = Signs(started=[Sample(0.0, 0.1)] * 8)
    lane.gate.look("batch")
    assert (pace.room(0), lane.pacer.look_s) == (1, LOOK_S)
    lane.signs = Signs(running=1, longest_wait=0.05)
    lane.gate.look("batch")
    assert (lane.pacer.paused, pace.room(0), lane.pacer.look_s) == (True, 0, PAUSED_S)


async def test_a_gate_is_kept_to_its_pace_until_that_is_cancelled() -> None:
    lane = Lane(ceiling=2).grown(2)
    keeping = asyncio.create_task(keep(lane.gate, "batch", lane.pacer))
    await asyncio.sleep(0)
    assert lane.gate.statistics().lanes["batch"].ceiling == 2
    lane.signs = Signs(running=1, waiting=1)
    while lane.gate.statistics().lanes["batch"].ceiling == 2:  # noqa: ASYNC110 - the loop under test looks by the clock
        await asyncio.sleep(0.01)
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
