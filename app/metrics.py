"""Prometheus: counts what the library reports, and shows slots and queues as they are when asked.

Every label has few values: lanes and engines come from the settings, endpoints from the routes, the rest from
enumerations.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.admission.gate import GateStatistics
from gateway.telemetry import (
    ITL_BUCKETS,
    TOKENS_BUCKETS,
    EngineHealthChanged,
    RequestAdmitted,
    RequestEnded,
    RequestRetried,
    StreamStats,
    TelemetryEvent,
)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Metrics:
    """The observer that counts, and the text for `/metrics`.

    Args:
        gates: gives the statistics of the lanes' gates, one entry a gate.
    """

    def __init__(self, gates: Callable[[], Sequence[GateStatistics]]) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "tokenlane_requests",
            "Requests that ended, by endpoint, lane, HTTP status and outcome.",
            ("endpoint", "lane", "status", "outcome"),
            registry=registry,
        )
        self._duration = _seconds("tokenlane_request_duration_seconds", "From arrival to the last byte.", registry)
        self._ttft = _seconds("tokenlane_ttft_seconds", "From arrival until the first token left.", registry)
        self._queued = _seconds("tokenlane_queue_wait_seconds", "Waiting for a slot.", registry)
        self._tokens = Counter("tokenlane_tokens", "Tokens, by kind.", ("lane", "kind"), registry=registry)
        self._flushes = Counter(
            "tokenlane_flushes", "Flushes of the token buffer, by reason.", ("lane", "reason"), registry=registry
        )
        self._retries = Counter(
            "tokenlane_retries", "Second tries with an engine, by reason.", ("lane", "reason"), registry=registry
        )
        self._up = Gauge(
            "tokenlane_engine_up", "1 while the engine may be asked.", ("lane", "engine"), registry=registry
        )
        self._itl = TallyHistogram("tokenlane_itl_seconds", "Between tokens, as the engine sends them.", ITL_BUCKETS)
        self._sizes = TallyHistogram("tokenlane_flush_tokens", "Tokens a flush.", TOKENS_BUCKETS)
        for collector in (self._itl, self._sizes, GateCollector(gates)):
            registry.register(collector)

    def __call__(self, event: TelemetryEvent) -> None:
        """Counts one event."""
        match event:
            case RequestAdmitted():
                self._queued.labels(event.lane).observe(event.waited)
            case RequestRetried():
                self._retries.labels(event.lane, event.reason).inc()
            case EngineHealthChanged():
                self._up.labels(event.lane, event.engine).set(event.healthy)
            case RequestEnded():
                self._ended(event)
            case _:
                assert_never(event)

    def text(self) -> bytes:
        """The exposition format, version 0.0.4."""
        return generate_latest(self._registry)

    def _ended(self, event: RequestEnded) -> None:
        self._requests.labels(event.endpoint, event.lane, str(event.status), event.outcome).inc()
        self._duration.labels(event.lane).observe(event.duration)
        if event.ttft is not None:
            self._ttft.labels(event.lane).observe(event.ttft)
        if event.stats is not None:
            self._streamed(event.lane, event.stats)

    def _streamed(self, lane: str, stats: StreamStats) -> None:
        self._tokens.labels(lane, "completion").inc(stats.completion_tokens or stats.tokens)
        self._tokens.labels(lane, "prompt").inc(stats.prompt_tokens or 0)
        for reason, count in stats.flushes.items():
            self._flushes.labels(lane, reason).inc(count)
        self._itl.add(lane, stats.itl, stats.itl_sum)
        self._sizes.add(lane, stats.flush_tokens, stats.flush_tokens_sum)


def _seconds(name: str, text: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, text, ("lane",), buckets=SECONDS, registry=registry)


class TallyHistogram(Collector):
    """A histogram by lane that takes whole tallies: a stream adds its counts once, when it has ended.

    Args:
        name: of the metric.
        text: its help.
        bounds: upper bounds of the buckets; a tally has one more, for what is above.
    """

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._bounds = [*(str(float(b)) for b in bounds), "+Inf"]
        self._counts: dict[str, Tally[int]] = {}
        self._sums: Tally[str] = Tally()

    def add(self, lane: str, counts: Sequence[int], total: float) -> None:
        """Adds one stream's counts a bucket (not cumulative) and the sum of its values."""
        tally = self._counts.setdefault(lane, Tally())
        for bucket, count in enumerate(counts):
            if count:
                tally[bucket] += count
        self._sums[lane] += total  # type: ignore[assignment]  # a Counter of floats is fine

    def collect(self) -> Iterator[Metric]:
        """Yields the family, cumulative as Prometheus wants it."""
        family = HistogramMetricFamily(self._name, self._text, labels=("lane",))
        for lane, tally in self._counts.items():
            family.add_metric((lane,), _cumulative(self._bounds, tally), self._sums[lane])
        yield family


def _cumulative(bounds: Sequence[str], counts: Mapping[int, int]) -> list[tuple[str, float]]:
    total, rows = 0, []
    for bucket, bound in enumerate(bounds):
        total += counts.get(bucket, 0)
        rows.append((bound, float(total)))
    return rows


class GateCollector(Collector):
    """Slots, running and waiting requests by lane, read when Prometheus asks."""

    def __init__(self, gates: Callable[[], Sequence[GateStatistics]]) -> None:
        self._gates = gates

    def collect(self) -> Iterator[Metric]:
        """Yields one gauge each."""
        slots = GaugeMetricFamily("tokenlane_slots", "Slots of the gate that the lane goes through.", labels=("lane",))
        running = GaugeMetricFamily("tokenlane_running", "Requests that hold a slot.", labels=("lane",))
        waiting = GaugeMetricFamily("tokenlane_waiting", "Requests in the queue.", labels=("lane",))
        for gate in self._gates():
            for lane, at in gate.lanes.items():
                slots.add_metric((lane,), gate.slots)
                running.add_metric((lane,), at.running)
                waiting.add_metric((lane,), at.waiting)
        yield from (slots, running, waiting)
