"""The engine with the smallest share of its slots taken; equal ones take turns."""

from collections.abc import Sequence

from gateway.routing.policies.policy import E
from gateway.routing.policies.round_robin import RoundRobin


class LeastBusy:
    """Keeps the load even, also between engines of different size."""

    def __init__(self) -> None:
        self._turns = RoundRobin()

    def choose(self, engines: Sequence[E], key: str | None) -> E:
        """The engine with the lowest load, of several the one whose last turn is longest ago."""
        if len(engines) == 1:
            return engines[0]
        lowest = min(engine.in_flight / engine.pool_size for engine in engines)
        idle = [engine for engine in engines if engine.in_flight / engine.pool_size == lowest]
        return self._turns.choose(idle, key)
