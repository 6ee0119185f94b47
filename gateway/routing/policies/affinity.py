"""The same key to the same engine, whose cache holds its prefix, unless that engine is much busier than the others.

Keys are spread by rendezvous hashing: each engine has a score for the key, the highest wins. An engine that leaves
takes only its own keys along, and they come back with it. The scores depend on names alone, so that several gateways
agree.

The bound is that of consistent hashing with bounded loads (https://arxiv.org/abs/1608.01350): no engine takes more
than `bound` times its share. An engine with less than `spare` of its slots taken is never too busy: a cached prefix
saves more there than an idle engine gains.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b

from gateway.routing.policies.least_busy import LeastBusy
from gateway.routing.policies.policy import E


class Affinity:
    """Sessions stay with their engine; what has no key, or would overload it, goes to the least busy one.

    Args:
        bound: how many times its fair share an engine may be at; above 1.
        spare: the share of its own slots up to which an engine takes its keys whatever the others are at.
    """

    def __init__(self, bound: float = 1.25, spare: float = 0.25) -> None:
        self._bound = bound
        self._spare = spare
        self._least_busy = LeastBusy()

    def choose(self, engines: Sequence[E], key: str | None) -> E:
        """The key's engine within the load bound, else the least busy one."""
        if key is not None:
            home = max(engines, key=lambda engine: _score(key, engine.name))
            if home.in_flight + 1 <= self._limit(home, engines):
                return home
        return self._least_busy.choose(engines, key)

    def _limit(self, home: E, engines: Sequence[E]) -> int:
        load = 1 + sum(engine.in_flight for engine in engines)
        share = home.pool_size / sum(engine.pool_size for engine in engines)
        return math.ceil(max(self._bound * load * share, self._spare * home.pool_size))


def _score(key: str, name: str) -> bytes:
    return blake2b(f"{key}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
