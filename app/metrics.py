"""Prometheus: counts what the library reports, and shows slots, queues and engines as they are when asked.

Every label has few values: lanes and engines come from the settings, endpoints from the routes, the rest from
enumerations and the names of errors. No label says who asked, or what.
"""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Generic, TypeVar, assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from app.batch_metrics import BatchCollector
from app.collectors import EngineCollector, GateCollector, TallyHistogram
from gateway.admission.gate import GateStatistics
from gateway.batch.census import Figures
from gateway.routing.pool import EnginePool
from gateway.telemetry import (
    ITL_BUCKETS,
    TOKENS_BUCKETS,
    BatchEnded,
    BatchLines,
    EngineHealthChanged,
    KeyRefused,
    Outcome,
    RequestAdmitted,
    RequestEnded,
    RequestRetried,
    StreamStats,
    TelemetryEvent,
    WarmUpBurst,
    WarmUpEnded,
)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
OVERHEAD_SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds: what the gateway adds is a millisecond or two; what is above ten needs an explanation."""


M = TypeVar("M", Counter, Gauge, Histogram)


class Series(Generic[M]):
    """A metric whose series are remembered: asking it for one costs more than counting in it."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._known: dict[tuple[str, ...], M] = {}

    def labels(self, *values: str) -> M:
        """The series of these labels."""
        series = self._known.get(values)
        if series is None:
            series = self._known[values] = self._metric.labels(*values)
        return series


class Metrics:
    """The observer that counts, and the text for `/metrics`.

    Args:
        gates: gives the statistics of the lanes' gates, one entry a gate.
        pools: gives the engines, a pool a lane.
        batches: gives what there is to show of batches, None while there is nothing.
    """

    def __init__(
        self,
        gates: Callable[[], Sequence[GateStatistics]],
        pools: Callable[[], Iterable[EnginePool]] = tuple,
        batches: Callable[[], Figures | None] = lambda: None,
    ) -> None:
        registry = self._registry = CollectorRegistry()
        self._seconds(registry)
        self._counters(registry)
        self._itl = TallyHistogram("tokenlane_itl_seconds", "Between tokens, as the engine sends them.", ITL_BUCKETS)
        self._sizes = TallyHistogram("tokenlane_flush_tokens", "Tokens a flush.", TOKENS_BUCKETS)
        self._batches = BatchCollector(batches)
        for collector in (self._itl, self._sizes, GateCollector(gates), EngineCollector(pools), self._batches):
            registry.register(collector)
        ProcessCollector(registry=registry)
        self._warm_ups = Counter(
            "tokenlane_engine_warmups", "Warm-ups that ended, by outcome.", ("engine", "outcome"), registry=registry
        )
        self._warm_seconds = Gauge(
            "tokenlane_engine_warmup_seconds", "What the last warm-up took.", ("engine",), registry=registry
        )
        self._warm_ttft = Gauge(
            "tokenlane_engine_warmup_ttft_seconds",
            "TTFT of a burst before and after the last warm-up.",
            ("engine", "burst"),
            registry=registry,
        )
        build = Gauge("tokenlane_build_info", "1; the label says which version runs.", ("version",), registry=registry)
        build.labels(version("tokenlane")).set(1)

    def _seconds(self, registry: CollectorRegistry) -> None:
        def seconds(name: str, text: str, buckets: Sequence[float] = SECONDS) -> Series[Histogram]:
            return Series(Histogram(f"tokenlane_{name}_seconds", text, ("lane",), buckets=buckets, registry=registry))

        self._duration = seconds("request_duration", "From arrival to the last byte.")
        self._ttft = seconds("ttft", "From arrival until the first token: text, reasoning or a tool call.")
        self._queued = seconds("queue_wait", "Waiting for a slot.")
        self._overhead = seconds(
            "overhead", "Until there was something to send, without queue and engine.", OVERHEAD_SECONDS
        )

    def _counters(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Series[Counter]:
            return Series(Counter(f"tokenlane_{name}", text, labels, registry=registry))

        self._requests = counter(
            "requests",
            "Requests that ended, by endpoint, lane, HTTP status and outcome.",
            *("endpoint", "lane", "status", "outcome"),
        )
        self._cancellations = counter(
            "cancellations", "Requests whose client left, by where they were: queue, engine, stream.", "lane", "stage"
        )
        self._refusals = counter("refusals", "Requests that a lane refused, by the error's name.", "lane", "error")
        self._keys = counter("key_refusals", "Requests refused for their key, or for its limits.", "reason")
        self._failures = counter(
            "engine_failures", "Answers that an engine did not finish, by the error's name.", "lane", "engine", "error"
        )
        self._tokens = counter("tokens", "Tokens, by kind: prompt, completion.", "lane", "kind")
        self._flushes = counter("flushes", "Flushes of the token buffer, by reason.", "lane", "reason")
        self._retries = counter("retries", "Second tries with an engine, by reason.", "lane", "reason")
        self._changes = counter(
            "engine_changes", "Times that an engine was taken out (to=down) or back (to=up).", "lane", "engine", "to"
        )

    def __call__(self, event: TelemetryEvent) -> None:
        """Counts one event."""
        match event:
            case RequestAdmitted():
                self._queued.labels(event.lane).observe(event.waited)
            case RequestEnded():
                self._ended(event)
            case KeyRefused():
                self._keys.labels(event.reason).inc()
            case RequestRetried():
                self._retries.labels(event.lane, event.reason).inc()
            case EngineHealthChanged():
                self._changes.labels(event.lane, event.engine, "up" if event.healthy else "down").inc()
            case WarmUpBurst():
                pass
            case WarmUpEnded():
                self._warmed(event)
            case BatchLines() | BatchEnded():
                self._batches.count(event)
            case _:
                assert_never(event)

    def text(self) -> bytes:
        """The exposition format, version 0.0.4."""
        return generate_latest(self._registry)

    def _warmed(self, event: WarmUpEnded) -> None:
        self._warm_ups.labels(event.engine, event.outcome).inc()
        self._warm_seconds.labels(event.engine).set(event.seconds)
        for burst, ttft in (("first", event.first), ("steady", event.steady)):
            if ttft is not None:
                self._warm_ttft.labels(event.engine, burst).set(ttft)

    def _ended(self, event: RequestEnded) -> None:
        self._requests.labels(event.endpoint, event.lane, str(event.status), event.outcome).inc()
        self._duration.labels(event.lane).observe(event.duration)
        if event.outcome is Outcome.CLIENT_GONE:
            self._cancellations.labels(event.lane, _stage(event)).inc()
        elif event.outcome is Outcome.REFUSED:
            self._refusals.labels(event.lane, event.error).inc()
        elif event.outcome is Outcome.ENGINE_ERROR:
            self._failures.labels(event.lane, event.engine, event.error).inc()
        if event.ttft is not None:
            self._ttft.labels(event.lane).observe(event.ttft)
        if event.overhead is not None:
            self._overhead.labels(event.lane).observe(event.overhead)
        if event.stats is not None:
            self._streamed(event.lane, event.stats)

    def _streamed(self, lane: str, stats: StreamStats) -> None:
        completion = stats.tokens if stats.completion_tokens is None else stats.completion_tokens
        self._tokens.labels(lane, "completion").inc(completion)
        self._tokens.labels(lane, "prompt").inc(stats.prompt_tokens or 0)
        for reason, count in stats.flushes.items():
            self._flushes.labels(lane, reason).inc(count)
        self._itl.add(lane, stats.itl, stats.itl_sum)
        self._sizes.add(lane, stats.flush_tokens, stats.flush_tokens_sum)


def _stage(event: RequestEnded) -> str:
    if not event.engine:
        return "queue"
    return "engine" if event.ttft is None else "stream"
