"""One after the other: whoever was chosen longest ago, which stays a fair turn while engines come and go."""

from collections.abc import Sequence
from itertools import count

from gateway.routing.policies.policy import E


class RoundRobin:
    """Takes turns, whatever the load."""

    def __init__(self) -> None:
        self._turns = count(1)
        self._chosen_at: dict[str, int] = {}

    def choose(self, engines: Sequence[E], key: str | None) -> E:
        """The engine whose last turn is longest ago."""
        engine = min(engines, key=lambda engine: self._chosen_at.get(engine.name, 0))
        self._chosen_at[engine.name] = next(self._turns)
        return engine
