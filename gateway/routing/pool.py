"""The engines of one lane, and the lease by which a request holds one.

A lease is a plain count on the engine: it is taken and given back between awaits, once. An engine can be in the pools
of two lanes; its count, and its breaker, are then those of both.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gateway.errors import NoEngine
from gateway.routing.breaker import Breaker, EngineOutcome
from gateway.routing.policies.policy import RoutingPolicy

BUSY_RETRY_AFTER = 1.0
"""Seconds to say where every engine is well but full."""

WARMING_RETRY_AFTER = 5.0
"""Seconds after which to ask again where an engine is being warmed, which takes seconds to minutes."""


@dataclass(eq=False, slots=True)
class Engine:
    """One engine: where it is, how much it takes, and how it does.

    `url` is its origin, without a slash at the end. `pool_size` is how many requests it takes at once, `in_flight`
    how many it is at. `warming` says how far its warm-up is, and is empty while there is none.
    """

    name: str
    url: str
    kind: str = "vllm"
    api_key: str | None = field(default=None, repr=False)
    pool_size: int = 32
    in_flight: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    warming: str = ""

    @property
    def healthy(self) -> bool:
        """Whether it may be asked."""
        return self.breaker.closed


class Lease:
    """One request's hold on an engine, until it is released."""

    __slots__ = ("_clock", "_epoch", "_released", "engine")

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self.engine = engine
        self._clock = clock
        self._epoch = engine.breaker.epoch
        self._released = False
        engine.in_flight += 1

    def release(self, outcome: EngineOutcome = EngineOutcome.NEUTRAL) -> None:
        """Gives the engine back and says how it did; from the second time on it does nothing."""
        if self._released:
            return
        self._released = True
        self.engine.in_flight -= 1
        self.engine.breaker.record(outcome, self._clock(), epoch=self._epoch)


class EnginePool:
    """The engines of one lane.

    Args:
        lane: the lane's name, for messages.
        engines: in the order of configuration, their names all different.
        policy: chooses among those that may be asked; of this pool alone, since it may remember its choices.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        lane: str,
        engines: Sequence[Engine],
        policy: RoutingPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lane = lane
        self.engines = tuple(engines)
        self._policy = policy
        self._clock = clock

    def __repr__(self) -> str:
        engines = ", ".join(
            f"{engine.name} {engine.in_flight}/{engine.pool_size} {engine.breaker.state}" for engine in self.engines
        )
        return f"<EnginePool {self.lane!r} ({engines})>"

    def lease(self, *, exclude: Collection[Engine] = (), key: str | None = None) -> Lease:
        """An engine for one request.

        Args:
            exclude: engines that the request has tried.
            key: what requests that should meet the same engine have in common.

        Raises:
            NoEngine: none may be asked: out of service, full, or excluded.
        """
        able = [
            engine
            for engine in self.engines
            if engine.breaker.closed and engine.in_flight < engine.pool_size and engine not in exclude
        ]
        if not able:
            raise self.no_engine()
        return Lease(self._policy.choose(able, key), self._clock)

    def capacity(self) -> int:
        """Slots of the engines that may be asked, taken or not."""
        return sum(engine.pool_size for engine in self.engines if engine.breaker.closed)

    def no_engine(self) -> NoEngine:
        """The error for a request that no engine can be asked for."""
        if any(engine.warming for engine in self.engines):
            return NoEngine(
                f"The engines of the lane {self.lane!r} are being warmed up.", retry_after=WARMING_RETRY_AFTER
            )
        return NoEngine(f"No engine of the lane {self.lane!r} can be asked now.", retry_after=self.retry_after())

    def retry_after(self) -> float:
        """Seconds until another try makes sense: the next probe of an engine that is out, at least one second."""
        now = self._clock()
        probes = [at - now for engine in self.engines if (at := engine.breaker.probe_at(now)) is not None]
        if not probes or len(probes) < len(self.engines):
            return BUSY_RETRY_AFTER
        return max(min(probes), BUSY_RETRY_AFTER)
