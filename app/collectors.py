"""What is not counted event by event: tallies of whole streams, and gates and engines as they are when asked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import add

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.admission.gate import GateStatistics
from gateway.routing.pool import EnginePool


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
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, lane: str, counts: Sequence[int], total: float) -> None:
        """Adds one stream's counts a bucket (not cumulative) and the sum of its values."""
        before = self._counts.get(lane)
        self._counts[lane] = list(counts) if before is None else list(map(add, before, counts))
        self._sums[lane] = self._sums.get(lane, 0.0) + total

    def collect(self) -> Iterator[Metric]:
        """Yields the family, cumulative as Prometheus wants it."""
        family = HistogramMetricFamily(self._name, self._text, labels=("lane",))
        for lane, counts in self._counts.items():
            family.add_metric((lane,), _cumulative(self._bounds, counts), self._sums[lane])
        yield family


def _cumulative(bounds: Sequence[str], counts: Sequence[int]) -> list[tuple[str, float]]:
    return [(bound, float(total)) for bound, total in zip(bounds, accumulate(counts), strict=True)]


class GateCollector(Collector):
    """Slots, running and waiting requests by lane, read when Prometheus asks."""

    def __init__(self, gates: Callable[[], Sequence[GateStatistics]]) -> None:
        self._gates = gates

    def collect(self) -> Iterator[Metric]:
        """Yields one gauge each."""
        slots = _gauge("tokenlane_slots", "Slots of the gate that the lane goes through.")
        running = _gauge("tokenlane_running", "Requests that hold a slot.")
        waiting = _gauge("tokenlane_waiting", "Requests in the queue.")
        ceiling = _gauge("tokenlane_ceiling", "Requests of the lane that may hold a slot now, where that is limited.")
        for gate in self._gates():
            for lane, at in gate.lanes.items():
                slots.add_metric((lane,), gate.slots)
                running.add_metric((lane,), at.running)
                waiting.add_metric((lane,), at.waiting)
                if at.ceiling is not None:
                    ceiling.add_metric((lane,), at.ceiling)
        yield from (slots, running, waiting, ceiling)


class EngineCollector(Collector):
    """The engines of each lane, read when Prometheus asks. An engine of several lanes is there once for each."""

    def __init__(self, pools: Callable[[], Iterable[EnginePool]]) -> None:
        self._pools = pools

    def collect(self) -> Iterator[Metric]:
        """Yields one gauge each."""
        labels = ("lane", "engine")
        up = _gauge("tokenlane_engine_up", "1 while the engine may be asked.", labels)
        running = _gauge("tokenlane_engine_in_flight", "Requests that the engine is at, of all lanes.", labels)
        room = _gauge("tokenlane_engine_connections", "Connections to the engine at most.", labels)
        for pool in self._pools():
            for engine in pool.engines:
                where = (pool.lane, engine.name)
                up.add_metric(where, float(engine.healthy))
                running.add_metric(where, engine.in_flight)
                room.add_metric(where, engine.pool_size)
        yield from (up, running, room)


def _gauge(name: str, text: str, labels: Sequence[str] = ("lane",)) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)
