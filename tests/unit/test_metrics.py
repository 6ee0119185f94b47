"""What Prometheus gets to see."""

import re
from typing import Any

import pytest

from app.metrics import Metrics
from gateway.batch.census import Census, figures
from gateway.batch.jobs import Status
from gateway.routing.policies import POLICIES
from gateway.routing.pool import Engine, EnginePool
from gateway.telemetry import (
    BatchEnded,
    BatchLines,
    EngineHealthChanged,
    FlushReason,
    KeyRefused,
    LineOutcome,
    Outcome,
    RequestAdmitted,
    RequestEnded,
    RequestRetried,
    StreamStats,
)


def ended(**changes: Any) -> RequestEnded:
    values: dict[str, Any] = {
        "endpoint": "/v1/chat/completions",
        "lane": "lowlatency",
        "engine": "a",
        "stream": True,
        "status": 200,
        "outcome": Outcome.OK,
        "error": "",
        "duration": 1.5,
        "queued": 0.0,
        "ttft": 0.3,
        "stats": None,
        "overhead": 0.0015,
    }
    return RequestEnded(**values | changes)


def samples(metrics: Metrics) -> dict[str, float]:
    found = re.findall(r"^(tokenlane\S+) (\S+)$", metrics.text().decode(), re.MULTILINE)
    return {name: float(value) for name, value in found if "_created" not in name}


def counted(*events: Any) -> dict[str, float]:
    metrics = Metrics(list)
    for event in events:
        metrics(event)
    return samples(metrics)


def test_a_stream_is_counted_once_with_all_that_it_was() -> None:
    """Cases H22, H64."""
    stats = StreamStats(tokens=9, prompt_tokens=5, completion_tokens=10, flushes={FlushReason.FIRST: 1}, itl_sum=0.2)
    stats.itl[2] = 4
    seen = counted(ended(stats=stats), RequestAdmitted("lowlatency", 0.2), RequestRetried("lowlatency", "a", "stale"))
    assert seen['tokenlane_tokens_total{kind="prompt",lane="lowlatency"}'] == 5
    assert seen['tokenlane_tokens_total{kind="completion",lane="lowlatency"}'] == 10
    assert seen['tokenlane_flushes_total{lane="lowlatency",reason="first"}'] == 1
    assert seen['tokenlane_ttft_seconds_sum{lane="lowlatency"}'] == 0.3
    assert seen['tokenlane_overhead_seconds_bucket{lane="lowlatency",le="0.002"}'] == 1
    assert seen['tokenlane_overhead_seconds_bucket{lane="lowlatency",le="0.001"}'] == 0
    assert seen['tokenlane_itl_seconds_bucket{lane="lowlatency",le="+Inf"}'] == 4
    assert seen['tokenlane_queue_wait_seconds_sum{lane="lowlatency"}'] == 0.2
    assert seen['tokenlane_retries_total{lane="lowlatency",reason="stale"}'] == 1


def test_a_usage_of_zero_is_zero_and_not_missing() -> None:
    """Case H63."""
    seen = counted(ended(stats=StreamStats(tokens=3, completion_tokens=0)))
    assert seen['tokenlane_tokens_total{kind="completion",lane="lowlatency"}'] == 0


def test_a_request_that_failed_before_a_token_has_no_ttft() -> None:
    """Case H64."""
    seen = counted(ended(ttft=None, overhead=None, status=502, outcome=Outcome.ENGINE_ERROR, error="EngineBroke"))
    assert not [name for name in seen if "ttft" in name or "overhead" in name]
    assert seen['tokenlane_engine_failures_total{engine="a",error="EngineBroke",lane="lowlatency"}'] == 1


@pytest.mark.parametrize(
    ("changes", "stage"), [({"engine": "", "ttft": None}, "queue"), ({"ttft": None}, "engine"), ({}, "stream")]
)
def test_who_leaves_is_counted_by_where_it_was(changes: dict[str, Any], stage: str) -> None:
    seen = counted(ended(status=499, outcome=Outcome.CLIENT_GONE, error="ClientGone", **changes))
    assert seen[f'tokenlane_cancellations_total{{lane="lowlatency",stage="{stage}"}}'] == 1


def test_refusals_of_lanes_and_of_keys_are_counted_apart() -> None:
    seen = counted(ended(status=429, outcome=Outcome.REFUSED, error="LaneFull"), KeyRefused("tokens"))
    assert seen['tokenlane_refusals_total{error="LaneFull",lane="lowlatency"}'] == 1
    assert seen['tokenlane_key_refusals_total{reason="tokens"}'] == 1


def test_engines_are_shown_as_they_are_when_asked() -> None:
    engine = Engine("a", "http://127.0.0.1:1", pool_size=7)
    pool = EnginePool("lowlatency", [engine], POLICIES["least_busy"]())
    metrics = Metrics(list, lambda: [pool])
    metrics(EngineHealthChanged("lowlatency", "a", healthy=False, reason="probe"))
    with_lease = pool.lease()
    seen = samples(metrics)
    where = '{engine="a",lane="lowlatency"}'
    assert seen[f"tokenlane_engine_up{where}"] == engine.healthy
    assert seen[f"tokenlane_engine_in_flight{where}"] == 1
    assert seen[f"tokenlane_engine_connections{where}"] == 7
    assert seen['tokenlane_engine_changes_total{engine="a",lane="lowlatency",to="down"}'] == 1
    with_lease.release()
    assert samples(metrics)[f"tokenlane_engine_in_flight{where}"] == 0


def test_batches_are_counted_and_shown_as_they_are() -> None:
    now = figures(Census({Status.IN_PROGRESS: 2}, lines=70), running=8, pace=9, ceiling=32)
    metrics = Metrics(list, batches=lambda: now)
    for event in (
        BatchLines(LineOutcome.DONE),
        BatchLines(LineOutcome.DONE),
        BatchLines(LineOutcome.EXPIRED, 40),
        BatchEnded("expired"),
    ):
        metrics(event)
    seen = samples(metrics)
    assert seen['tokenlane_batch_lines_total{outcome="done"}'] == 2
    assert seen['tokenlane_batch_lines_total{outcome="expired"}'] == 40
    assert seen['tokenlane_batches_ended_total{status="expired"}'] == 1
    assert seen['tokenlane_batches{status="in_progress"}'] == 2
    assert seen['tokenlane_batches{status="finalizing"}'] == 0
    assert (seen["tokenlane_batch_running"], seen["tokenlane_batch_waiting"]) == (8, 62)
    assert (seen["tokenlane_batch_concurrency"], seen["tokenlane_batch_concurrency_most"]) == (9, 32)


def test_who_has_made_no_batch_sees_no_number_of_batches() -> None:
    assert not [name for name in samples(Metrics(list)) if "batch" in name]
