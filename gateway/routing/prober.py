"""Asks the engines how they do: the shell around their breakers.

- In service: /health each interval. One that fails counts as a failure, a refused connection opens the breaker; one
  that is well says nothing, since a hanging engine says the same.
- Out of service, or not proven yet: a real generation of one token, again and again at the breaker's pace. One that
  succeeds is followed by a warm-up where there is one, and only then there is traffic.
- Each engine has its own task, so that one that hangs holds up nobody. What runs on an engine is never touched.
- Who took an engine out, a request or a probe, makes no difference: the change is reported from here, within a second.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from gateway.errors import EngineError
from gateway.routing.breaker import EngineOutcome, outcome_of
from gateway.routing.pool import Engine, EnginePool
from gateway.telemetry import EngineHealthChanged, Observer, ignore

LOOK = 1.0
"""Seconds between two looks at a breaker that a request may have opened."""

Probe = Callable[[Engine], Awaitable[bool]]
"""Asks an engine something: whether it is well. An `EngineError` or no answer in time say that it is not."""


async def already_warm(engine: Engine) -> bool:
    """The warm-up of an engine that needs none."""
    del engine
    return True


class Prober:
    """Watches the engines of some pools.

    Args:
        pools: an engine in several of them is watched once and reported for each lane.
        health: asks /health.
        generate: asks for one token, in earnest.
        warm: what else an engine needs before it is asked by clients, with a limit of its own; it raises nothing.
        interval: seconds between two questions for /health, more than 0.
        timeout: seconds that either may take.
        clock: monotonic seconds, the breakers' clock.
        sleep: waits for so many seconds.
        observer: hears of engines that go and come.
    """

    def __init__(
        self,
        pools: Sequence[EnginePool],
        *,
        health: Probe,
        generate: Probe,
        warm: Callable[[Engine], Awaitable[bool]] = already_warm,
        interval: float = 5.0,
        timeout: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        observer: Observer = ignore,
    ) -> None:
        self._lanes: dict[Engine, list[str]] = {}
        for pool in pools:
            for engine in pool.engines:
                self._lanes.setdefault(engine, []).append(pool.lane)
        self._reported = {engine: engine.healthy for engine in self._lanes}
        self._health = health
        self._generate = generate
        self._warm = warm
        self._interval = interval
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._observer = observer

    async def run(self) -> None:
        """Watches until it is cancelled. Its owner has to wait for it."""
        async with asyncio.TaskGroup() as watchers:
            for engine in self._lanes:
                watchers.create_task(self._watch(engine), name=f"watch {engine.name}")

    async def _watch(self, engine: Engine) -> None:
        health_at = self._clock()
        while True:
            self._report(engine)
            now = self._clock()
            probe_at = engine.breaker.probe_at(now)
            pause = (health_at if probe_at is None else probe_at) - now
            if pause > 0:
                await self._sleep(min(pause, LOOK))
            elif probe_at is None:
                await self._check(engine)
                health_at = self._clock() + self._interval
            else:
                await self._prove(engine)

    async def _check(self, engine: Engine) -> None:
        outcome = await self._ask(self._health, engine)
        if outcome is not EngineOutcome.SUCCESS:
            engine.breaker.record(outcome, self._clock())

    async def _prove(self, engine: Engine) -> None:
        if await self._ask(self._generate, engine) is EngineOutcome.SUCCESS and await self._warm(engine):
            engine.breaker.probe_succeeded(self._clock())
        else:
            engine.breaker.probe_failed(self._clock())

    async def _ask(self, probe: Probe, engine: Engine) -> EngineOutcome:
        try:
            async with asyncio.timeout(self._timeout):
                well = await probe(engine)
        except TimeoutError:
            return EngineOutcome.FAILURE
        except EngineError as error:
            return outcome_of(error)
        return EngineOutcome.SUCCESS if well else EngineOutcome.FAILURE

    def _report(self, engine: Engine) -> None:
        healthy, reason = engine.healthy, engine.breaker.reason
        if healthy == self._reported[engine]:
            return
        self._reported[engine] = healthy
        for lane in self._lanes[engine]:
            self._observer(EngineHealthChanged(lane, engine.name, healthy=healthy, reason=reason))
