"""What is not counted but read when Prometheus asks: gates and engines as they are."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.admission.gate import GateStatistics
from gateway.routing.pool import EnginePool


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
