"""What a routing policy sees, and what it decides."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class EngineView(Protocol):
    """One engine that may be asked now."""

    @property
    def name(self) -> str:
        """Its name, the only one of that name in the pool."""

    @property
    def in_flight(self) -> int:
        """Requests that it is at; below `pool_size`."""

    @property
    def pool_size(self) -> int:
        """Requests that it takes at once; at least one."""


E = TypeVar("E", bound=EngineView)


class RoutingPolicy(Protocol):
    """Chooses an engine for a request."""

    def choose(self, engines: Sequence[E], key: str | None) -> E:
        """One of `engines`.

        Args:
            engines: those that may be asked and are not full, in the order of configuration; at least one.
            key: what requests that should meet the same engine have in common (a session, a prompt's beginning), or
                None.
        """
