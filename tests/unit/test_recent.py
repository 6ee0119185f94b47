"""The last minutes as the status view sees them."""

import pytest

from app.recent import MINUTE, SLOT_S, SLOTS, TTFT_VALUES, Percentiles, Recent, of_buckets, of_values
from gateway.telemetry import ITL_BUCKETS, FlushReason, Outcome, RequestAdmitted, RequestEnded, StreamStats


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recent(clock: Clock) -> Recent:
    return Recent(("lowlatency", "batch"), clock)


def ended(
    *,
    lane: str = "lowlatency",
    ttft: float | None = 0.1,
    outcome: Outcome = Outcome.OK,
    stats: StreamStats | None = None,
) -> RequestEnded:
    return RequestEnded("/v1/chat/completions", lane, "e", True, 200, outcome, "", 1.0, 0.0, ttft, stats)


def stream(*, tokens: int = 8, flushes: dict[FlushReason, int] | None = None, itl_bucket: int = 2) -> StreamStats:
    itl = [0] * (len(ITL_BUCKETS) + 1)
    itl[itl_bucket] = tokens - 1
    return StreamStats(tokens=tokens, flush_tokens_sum=tokens, flushes=flushes or {FlushReason.TOKENS: 2}, itl=itl)


def test_the_last_minute_adds_up_what_ended_in_it(recent: Recent, clock: Clock) -> None:
    recent(ended(ttft=0.1, stats=stream(flushes={FlushReason.FIRST: 1, FlushReason.TOKENS: 3})))
    clock.now += SLOT_S
    recent(ended(ttft=0.3, stats=stream(flushes={FlushReason.TOKENS: 4})))
    minute = recent.minute("lowlatency")
    assert (minute.requests, minute.tokens, list(minute.ttft)) == (2, 16, [0.1, 0.3])
    assert minute.flushes == {FlushReason.FIRST: 1, FlushReason.TOKENS: 7}
    assert minute.tokens_a_flush == 2.0
    assert sum(minute.itl) == 14


def test_what_is_older_than_a_minute_leaves_the_sum_but_stays_in_the_history(recent: Recent, clock: Clock) -> None:
    recent(ended())
    clock.now += SLOT_S * (MINUTE - 1)
    assert recent.minute("lowlatency").requests == 1
    clock.now += SLOT_S
    assert recent.minute("lowlatency").requests == 0
    assert [slot.requests for slot in recent.history("lowlatency")].count(1) == 1


def test_the_history_has_every_slot_with_the_running_one_last(recent: Recent, clock: Clock) -> None:
    recent(ended())
    clock.now += SLOT_S * 3
    recent(ended())
    recent(ended())
    history = recent.history("lowlatency")
    assert [slot.requests for slot in history] == [0] * (SLOTS - 4) + [1, 0, 0, 2]
    assert [slot.index for slot in history] == list(range(history[0].index, history[0].index + SLOTS))


def test_what_left_the_ring_is_forgotten(recent: Recent, clock: Clock) -> None:
    recent(ended())
    clock.now += SLOT_S * SLOTS
    assert not any(slot.requests for slot in recent.history("lowlatency"))


def test_lanes_are_kept_apart_and_unknown_ones_ignored(recent: Recent) -> None:
    recent(ended(lane="batch"))
    recent(ended(lane=""))
    recent(ended(lane="invented"))
    assert recent.minute("batch").requests == 1
    assert recent.minute("lowlatency").requests == 0
    with pytest.raises(KeyError):
        recent.minute("invented")


def test_refusals_and_failures_are_counted_apart_from_clients_that_left(recent: Recent) -> None:
    for outcome in Outcome:
        recent(ended(ttft=None, outcome=outcome))
    minute = recent.minute("lowlatency")
    assert (minute.requests, minute.refused, minute.failed) == (len(Outcome), 1, 2)
    assert not minute.ttft
    assert minute.tokens_a_flush is None


def test_other_events_change_nothing(recent: Recent) -> None:
    recent(RequestAdmitted("lowlatency", 0.5))
    assert recent.minute("lowlatency").requests == 0


def test_memory_is_bounded_however_many_requests_end(recent: Recent, clock: Clock) -> None:
    for _ in range(SLOTS + 5):
        for number in range(TTFT_VALUES + 10):
            recent(ended(ttft=float(number)))
        clock.now += SLOT_S
    kept = [slot.ttft for slot in recent.history("lowlatency") if slot.ttft]
    assert len(kept) == SLOTS - 1
    assert all(len(values) == TTFT_VALUES and values[-1] == TTFT_VALUES + 9 for values in kept)


def test_percentiles_of_values_are_values_that_were_seen() -> None:
    assert of_values([]) is None
    assert of_values([3.0]) == Percentiles(3.0, 3.0, 3.0)
    assert of_values(float(n) for n in range(100, 0, -1)) == Percentiles(50.0, 95.0, 99.0)


def test_percentiles_of_buckets_lie_within_their_bucket() -> None:
    assert of_buckets([0, 0, 0], (1.0, 2.0)) is None
    found = of_buckets([90, 10, 0], (1.0, 2.0))
    assert found is not None
    assert found.p50 == pytest.approx(50 / 90)
    assert found.p95 == pytest.approx(1.5)
    assert found.p99 == pytest.approx(1.9)


def test_what_is_above_all_bounds_counts_as_the_highest_bound() -> None:
    assert of_buckets([0, 0, 7], (1.0, 2.0)) == Percentiles(2.0, 2.0, 2.0)
