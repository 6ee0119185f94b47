"""The gate: slots, queues, patience, and every way to leave."""

import asyncio
import gc
import math
import weakref
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from gateway.admission.gate import Gate, LaneLimits, Permit
from gateway.admission.lanes import Fifo, LanePolicy, Reserve
from gateway.errors import Draining, LaneFull, PatienceExhausted

ONE = {"chat": LaneLimits()}


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def gate(
    slots: int,
    lanes: Mapping[str, LaneLimits] = ONE,
    policy: LanePolicy | None = None,
    clock: Callable[[], float] | None = None,
) -> Gate:
    return Gate("test", slots, lanes, policy or Fifo(), clock or Clock())


def counts(gate: Gate) -> dict[str, tuple[int, int]]:
    return {name: (lane.running, lane.waiting) for name, lane in gate.statistics().lanes.items()}


def without_waiting(acquire: Coroutine[Any, Any, Permit]) -> Permit:
    """Runs it to its end without an event loop: it must not suspend."""
    try:
        acquire.send(None)
    except StopIteration as done:
        permit: Permit = done.value
        return permit
    raise AssertionError("it waited")


async def settle() -> None:
    """Lets every task that can go on go on."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_free_slot_is_had_without_a_loop_a_timer_or_a_task() -> None:
    one = gate(1)
    permit = without_waiting(one.acquire("chat"))
    assert (permit.lane, permit.waited) == ("chat", 0.0)
    permit.release()
    without_waiting(one.acquire("chat"))
    assert counts(one) == {"chat": (1, 0)}


def test_releasing_twice_gives_one_slot_back() -> None:
    one = gate(2)
    first, _second = without_waiting(one.acquire("chat")), without_waiting(one.acquire("chat"))
    first.release()
    first.release()
    assert counts(one) == {"chat": (1, 0)}


def test_a_permit_used_as_a_context_is_released_when_the_body_raises() -> None:
    one = gate(1)
    with pytest.raises(ZeroDivisionError), without_waiting(one.acquire("chat")):
        _ = 1 / 0
    assert counts(one) == {"chat": (0, 0)}


async def test_two_hundred_at_once_on_32_slots_are_served_queued_or_refused_in_order() -> None:
    """Case H54, and case H53: the queue is ours, and to be seen."""
    one = gate(32, {"chat": LaneLimits(queue=64)})
    admitted: list[int] = []
    refused: list[int] = []
    go_on = asyncio.Event()

    async def client(number: int) -> None:
        try:
            permit = await one.acquire("chat")
        except LaneFull:
            refused.append(number)
            return
        with permit:
            admitted.append(number)
            await go_on.wait()

    async with asyncio.TaskGroup() as clients:
        for number in range(200):
            clients.create_task(client(number))
        await settle()
        assert counts(one) == {"chat": (32, 64)}
        assert repr(one) == "<Gate 'test' 32/32 slots (chat: 32 running, 64 waiting)>"
        go_on.set()
    assert admitted == list(range(96))
    assert refused == list(range(96, 200))
    assert counts(one) == {"chat": (0, 0)}


async def test_the_time_in_the_queue_is_told() -> None:
    clock = Clock()
    one = gate(1, clock=clock)
    first = await one.acquire("chat")
    second = asyncio.create_task(one.acquire("chat"))
    await settle()
    clock.now = 7.5
    first.release()
    assert (await second).waited == 7.5


async def test_whoever_leaves_the_queue_is_passed_over() -> None:
    """Case H2: a client that left while it waited never gets a slot."""
    one = gate(1)
    first = await one.acquire("chat")
    gone, waits = asyncio.create_task(one.acquire("chat")), asyncio.create_task(one.acquire("chat"))
    await settle()
    gone.cancel()
    await asyncio.wait([gone])
    assert counts(one) == {"chat": (1, 1)}
    first.release()
    await waits
    assert counts(one) == {"chat": (1, 0)}


async def test_a_slot_granted_in_the_tick_of_the_cancel_goes_to_the_next() -> None:
    """Case H1 and case H3, at the gate: granted first, cancelled before the task has run."""
    one = gate(1)
    first = await one.acquire("chat")
    unlucky, waits = asyncio.create_task(one.acquire("chat")), asyncio.create_task(one.acquire("chat"))
    await settle()
    first.release()
    unlucky.cancel()
    permit = await waits
    assert unlucky.cancelled()
    assert counts(one) == {"chat": (1, 0)}
    permit.release()
    assert counts(one) == {"chat": (0, 0)}


async def test_a_slot_that_comes_free_in_the_tick_of_the_cancel_is_not_given_to_the_dead() -> None:
    """The other order: cancelled first, but its task has not run when the slot comes free."""
    one = gate(1)
    first = await one.acquire("chat")
    gone, waits = asyncio.create_task(one.acquire("chat")), asyncio.create_task(one.acquire("chat"))
    await settle()
    gone.cancel()
    first.release()
    await waits
    assert counts(one) == {"chat": (1, 0)}


async def test_a_wait_whose_coroutine_is_closed_leaves_the_queue() -> None:
    one = gate(1)
    first = await one.acquire("chat")
    abandoned = one.acquire("chat")
    abandoned.send(None)
    abandoned.close()
    assert counts(one) == {"chat": (1, 0)}
    first.release()
    assert counts(one) == {"chat": (0, 0)}


async def test_patience_ends_the_wait_of_one_and_not_of_the_others() -> None:
    lanes = {"chat": LaneLimits(patience=0.01), "batch": LaneLimits(patience=math.inf)}
    one = gate(1, lanes)
    first = await one.acquire("chat")
    patient = asyncio.create_task(one.acquire("batch"))
    with pytest.raises(PatienceExhausted, match=r"0\.01 s") as caught:
        await one.acquire("chat")
    assert caught.value.retry_after >= 1
    assert counts(one) == {"chat": (1, 0), "batch": (0, 1)}
    first.release()
    await patient


async def test_a_cancel_in_the_tick_of_a_refusal_is_a_quiet_cancel() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    one = gate(1)
    await one.acquire("chat")
    waits = asyncio.create_task(one.acquire("chat"))
    await settle()
    one.close(Draining("going", retry_after=1.0))
    waits.cancel()
    await asyncio.wait([waits])
    assert waits.cancelled()
    del waits
    gc.collect()
    assert complaints == []


async def test_a_wait_that_ended_leaves_no_timer_behind() -> None:
    one = gate(1)
    first = await one.acquire("chat")
    second = asyncio.create_task(one.acquire("chat"))
    await settle()
    first.release()
    (await second).release()
    nobody_holds = weakref.ref(one)
    del one, first, second
    gc.collect()
    assert nobody_holds() is None


def test_a_lane_without_a_queue_refuses_at_once() -> None:
    one = gate(1, {"chat": LaneLimits(queue=0)})
    without_waiting(one.acquire("chat"))
    with pytest.raises(LaneFull, match="1 running and 0 waiting"):
        without_waiting(one.acquire("chat"))


async def test_the_time_to_come_back_follows_from_how_long_requests_take() -> None:
    """Case H67: a refusal says something."""
    clock = Clock()
    one = gate(2, {"chat": LaneLimits(queue=1)}, clock=clock)
    for _ in range(20):
        permit = await one.acquire("chat")
        clock.now += 8.0
        permit.release()
    held = [await one.acquire("chat"), await one.acquire("chat")]
    waits = asyncio.create_task(one.acquire("chat"))
    await settle()
    with pytest.raises(LaneFull) as caught:
        await one.acquire("chat")
    assert caught.value.retry_after == pytest.approx(8.0)  # two places, at one slot in four seconds
    held[0].release()
    await waits


async def test_a_lane_stays_below_its_own_ceiling_and_does_not_block_another() -> None:
    one = gate(3, {"chat": LaneLimits(), "batch": LaneLimits(slots=1)})
    first = await one.acquire("batch")
    waits = asyncio.create_task(one.acquire("batch"))
    await settle()
    await one.acquire("chat")
    assert counts(one) == {"chat": (1, 0), "batch": (1, 1)}
    first.release()
    await waits
    assert counts(one) == {"chat": (1, 0), "batch": (1, 0)}


async def test_more_slots_admit_who_waits_in_order() -> None:
    one = gate(0)
    waits = [asyncio.create_task(one.acquire("chat")) for _ in range(3)]
    await settle()
    one.resize(2)
    await settle()
    assert [task.done() for task in waits] == [True, True, False]
    one.resize(3)
    await waits[2]


async def test_fewer_slots_let_what_runs_go_on_and_admit_nobody_until_it_drained() -> None:
    one = gate(3)
    held = [await one.acquire("chat") for _ in range(3)]
    waits = asyncio.create_task(one.acquire("chat"))
    one.resize(1)
    await settle()
    assert one.statistics().running == 3
    held[0].release()
    held[1].release()
    await settle()
    assert not waits.done()
    held[2].release()
    await waits
    assert one.statistics().running == one.statistics().slots == 1


def test_a_gate_of_fewer_than_no_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 0"):
        gate(1).resize(-1)


async def test_a_closed_gate_refuses_who_waits_and_who_comes_and_lets_what_runs_go_on() -> None:
    one = gate(1, {"chat": LaneLimits(), "batch": LaneLimits()})
    held = await one.acquire("chat")
    waits = [asyncio.create_task(one.acquire(lane)) for lane in ("chat", "batch", "chat")]
    await settle()
    one.close(Draining("The gateway shuts down.", retry_after=3.0))
    errors = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(error) for error in errors] == [Draining] * 3
    assert len({id(error) for error in errors}) == 3
    with pytest.raises(Draining, match="shuts down") as caught:
        await one.acquire("chat")
    assert caught.value.retry_after == 3.0
    assert counts(one) == {"chat": (1, 0), "batch": (0, 0)}
    assert "closed" in repr(one)
    held.release()
    assert one.statistics().running == one.statistics().waiting == 0


async def test_chats_go_before_a_batch_that_came_first_and_the_batch_speeds_up_in_silence() -> None:
    """Case H67: one engine, a long batch, and people."""
    lanes = {"chat": LaneLimits(), "batch": LaneLimits(queue=100)}
    one = gate(4, lanes, Reserve("chat", reserve=2))
    batch = [asyncio.create_task(one.acquire("batch")) for _ in range(10)]
    await settle()
    assert counts(one) == {"chat": (0, 0), "batch": (2, 8)}
    chats = [without_waiting(one.acquire("chat")) for _ in range(2)]
    waits = asyncio.create_task(one.acquire("chat"))
    await settle()
    (await batch[0]).release()
    await waits
    assert counts(one) == {"chat": (3, 0), "batch": (1, 8)}
    for permit in (*chats, await waits):
        permit.release()
    assert counts(one) == {"chat": (0, 0), "batch": (2, 7)}
    for task in batch:
        task.cancel()


async def test_a_batch_trickles_through_while_chats_keep_the_reserve_busy() -> None:
    """Case H67: however busy the chats are, as long as one slot is free now and then."""
    lanes = {"chat": LaneLimits(), "batch": LaneLimits()}
    one = gate(4, lanes, Reserve("chat", reserve=2))
    chats = [await one.acquire("chat") for _ in range(4)]
    batch = [asyncio.create_task(one.acquire("batch")) for _ in range(2)]
    await settle()
    chats[0].release()
    await settle()
    assert counts(one) == {"chat": (3, 0), "batch": (1, 1)}
    for task in batch:
        task.cancel()


async def test_an_unknown_lane_is_a_fault_of_the_caller() -> None:
    with pytest.raises(KeyError):
        await gate(1).acquire("night")


class ScriptedPace:
    """Lets in as many as it is told to, and keeps what it was told."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.told: list[int | str] = []

    def look(self, busy: int) -> int:
        self.told.append(busy)
        return self.limit

    def began(self) -> None:
        self.told.append("began")


async def test_a_lane_that_keeps_a_pace_runs_no_more_than_that_lets_in() -> None:
    """Case H67."""
    one, pace = gate(8, {"chat": LaneLimits(), "batch": LaneLimits()}), ScriptedPace(1)
    one.keep("batch", pace)
    first = without_waiting(one.acquire("batch"))
    waiting = [asyncio.ensure_future(one.acquire("batch")) for _ in range(3)]
    await settle()
    assert counts(one) == {"chat": (0, 0), "batch": (1, 3)}
    without_waiting(one.acquire("chat"))
    pace.limit = 3
    one.look("batch")
    assert counts(one) == {"chat": (1, 0), "batch": (3, 1)}
    first.release()
    assert counts(one)["batch"] == (3, 0)
    await asyncio.gather(*waiting)


async def test_a_pace_is_asked_when_a_request_ends_before_the_next_one_begins() -> None:
    one, pace = gate(8, {"batch": LaneLimits()}), ScriptedPace(1)
    one.keep("batch", pace)
    first = without_waiting(one.acquire("batch"))
    waiting = asyncio.ensure_future(one.acquire("batch"))
    await settle()
    pace.limit = 0
    first.release()
    assert counts(one) == {"batch": (0, 1)}
    assert pace.told == [0, "began", 0]
    pace.limit = 1
    one.look("batch")
    assert (await waiting).lane == "batch"
    assert pace.told == [0, "began", 0, 0, "began"]


def test_a_pace_never_goes_beyond_the_slots_of_its_lane() -> None:
    one = gate(8, {"batch": LaneLimits(slots=2)})
    one.keep("batch", ScriptedPace(6))
    assert one.statistics().lanes["batch"].ceiling == 2


def test_what_runs_above_a_lower_pace_goes_on() -> None:
    one, pace = gate(8, {"batch": LaneLimits(queue=0)}), ScriptedPace(2)
    one.keep("batch", pace)
    permits = [without_waiting(one.acquire("batch")) for _ in range(2)]
    pace.limit = 1
    one.look("batch")
    assert counts(one) == {"batch": (2, 0)}
    permits[0].release()
    with pytest.raises(LaneFull):
        without_waiting(one.acquire("batch"))


class BrokenPace(ScriptedPace):
    """Fails when it is told to."""

    broken = False

    def look(self, busy: int) -> int:
        if self.broken:
            raise ZeroDivisionError
        return super().look(busy)


def test_a_pace_that_fails_costs_no_slot() -> None:
    one, pace = gate(2, {"batch": LaneLimits()}), BrokenPace(2)
    one.keep("batch", pace)
    permit = without_waiting(one.acquire("batch"))
    pace.broken = True
    with pytest.raises(ZeroDivisionError):
        permit.release()
    assert one.statistics().running == 0
    pace.broken = False
    for _ in range(2):
        without_waiting(one.acquire("batch"))
    assert counts(one) == {"batch": (2, 0)}
