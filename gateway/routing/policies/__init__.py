"""The policies by which a pool chooses an engine. A new one is a file here and a line in `POLICIES`."""

from collections.abc import Callable, Mapping

from gateway.routing.policies.affinity import Affinity
from gateway.routing.policies.least_busy import LeastBusy
from gateway.routing.policies.policy import EngineView, RoutingPolicy
from gateway.routing.policies.round_robin import RoundRobin

__all__ = ["POLICIES", "Affinity", "EngineView", "LeastBusy", "RoundRobin", "RoutingPolicy"]

POLICIES: Mapping[str, Callable[[], RoutingPolicy]] = {
    "least_busy": LeastBusy,
    "round_robin": RoundRobin,
    "affinity": Affinity,
}
"""Name -> how it is made. A policy remembers whom it chose: each pool has one of its own."""
