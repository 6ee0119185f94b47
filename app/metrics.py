"""Prometheus: counts what the library reports, and shows slots, queues and engines as they are when asked.

Every label has few values: lanes and engines come from the settings, endpoints from the routes, the rest from
enumerations and the names of errors. No label says who asked, or what.
"""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import assert_never

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest

from app.batch_metrics import BatchCollector
from app.collectors import EngineCollector, GateCollector
from app.tallies import TallyCounter, TallyHistogram
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
        self._histograms(registry)
        self._counters(registry)
        self._batches = BatchCollector(batches)
        for collector in (GateCollector(gates), EngineCollector(pools), self._batches):
            registry.register(collector)
        ProcessCollector(registry=registry)
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

    def _histograms(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, buckets: Sequence[float] = SECONDS) -> TallyHistogram:
            made = TallyHistogram(f"tokenlane_{name}", text, buckets)
            registry.register(made)
            return made

        self._duration = histogram("request_duration_seconds", "From arrival to the last byte.")
        self._ttft = histogram("ttft_seconds", "From arrival until the first token: text, reasoning or a tool call.")
        self._queued = histogram("queue_wait_seconds", "Waiting for a slot.")
        self._overhead = histogram(
            "overhead_seconds", "Until there was something to send, without queue and engine.", OVERHEAD_SECONDS
        )
        self._itl = histogram("itl_seconds", "Between tokens, as the engine sends them.", ITL_BUCKETS)
        self._sizes = histogram("flush_tokens", "Tokens a flush.", TOKENS_BUCKETS)

    def _counters(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> TallyCounter:
            made = TallyCounter(f"tokenlane_{name}", text, labels)
            registry.register(made)
            return made

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
        self._warm_ups = counter("engine_warmups", "Warm-ups that ended, by outcome.", "engine", "outcome")

    def __call__(self, event: TelemetryEvent) -> None:
        """Counts one event."""
        match event:
            case RequestAdmitted():
                self._queued.observe(event.lane, event.waited)
            case RequestEnded():
                self._ended(event)
            case KeyRefused():
                self._keys.add((event.reason,))
            case RequestRetried():
                self._retries.add((event.lane, event.reason))
            case EngineHealthChanged():
                self._changes.add((event.lane, event.engine, "up" if event.healthy else "down"))
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
        self._warm_ups.add((event.engine, event.outcome))
        self._warm_seconds.labels(event.engine).set(event.seconds)
        for burst, ttft in (("first", event.first), ("steady", event.steady)):
            if ttft is not None:
                self._warm_ttft.labels(event.engine, burst).set(ttft)

    def _ended(self, event: RequestEnded) -> None:
        self._requests.add((event.endpoint, event.lane, str(event.status), event.outcome))
        self._duration.observe(event.lane, event.duration)
        if event.outcome is Outcome.CLIENT_GONE:
            self._cancellations.add((event.lane, _stage(event)))
        elif event.outcome is Outcome.REFUSED:
            self._refusals.add((event.lane, event.error))
        elif event.outcome is Outcome.ENGINE_ERROR:
            self._failures.add((event.lane, event.engine, event.error))
        if event.ttft is not None:
            self._ttft.observe(event.lane, event.ttft)
        if event.overhead is not None:
            self._overhead.observe(event.lane, event.overhead)
        if event.stats is not None:
            self._streamed(event.lane, event.stats)

    def _streamed(self, lane: str, stats: StreamStats) -> None:
        completion = stats.tokens if stats.completion_tokens is None else stats.completion_tokens
        self._tokens.add((lane, "completion"), completion)
        self._tokens.add((lane, "prompt"), stats.prompt_tokens or 0)
        for reason, count in stats.flushes.items():
            self._flushes.add((lane, reason), count)
        self._itl.add(lane, stats.itl, stats.itl_sum)
        self._sizes.add(lane, stats.flush_tokens, stats.flush_tokens_sum)


def _stage(event: RequestEnded) -> str:
    if not event.engine:
        return "queue"
    return "engine" if event.ttft is None else "stream"
