"""The prober against engines that play a script, in a time of its own."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.errors import EngineAnswered, EngineStale, EngineUnreachable
from gateway.routing.breaker import Breaker, EngineOutcome
from gateway.routing.policies import RoundRobin
from gateway.routing.pool import Engine, EnginePool
from gateway.routing.prober import Prober, already_warm
from gateway.telemetry import EngineHealthChanged, TelemetryEvent

Answer = Callable[[], bool]


def well() -> bool:
    return True


def ill() -> bool:
    return False


def refused() -> bool:
    raise EngineUnreachable


class World:
    """Time that moves when the test says so, engines that answer what the test says, and a record of what was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.health: dict[str, Answer] = defaultdict(lambda: well)
        self.generation: dict[str, Answer] = defaultdict(lambda: well)
        self.warmth: dict[str, bool] = defaultdict(lambda: True)
        self.hanging: set[str] = set()
        self.asked: list[tuple[float, str, str]] = []
        self.events: list[EngineHealthChanged] = []
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        self._sleepers.append((self.now + seconds, over))
        await over.wait()

    async def pass_time(self, seconds: float) -> None:
        """Moves the time on, from one sleeper to the next."""
        end = self.now + seconds
        await self._settle()
        while due := [until for until, _ in self._sleepers if until <= end]:
            self.now = min(due)
            for sleeper in [sleeper for sleeper in self._sleepers if sleeper[0] <= self.now]:
                self._sleepers.remove(sleeper)
                sleeper[1].set()
            await self._settle()
        self.now = end

    async def ask_health(self, engine: Engine) -> bool:
        return await self._answer("health", engine, self.health[engine.name])

    async def ask_generation(self, engine: Engine) -> bool:
        return await self._answer("generate", engine, self.generation[engine.name])

    async def warm_up(self, engine: Engine) -> bool:
        self.asked.append((self.now, "warm", engine.name))
        await self.sleep(20)
        return self.warmth[engine.name]

    def observe(self, event: TelemetryEvent) -> None:
        assert isinstance(event, EngineHealthChanged)
        self.events.append(event)

    def times(self, what: str, name: str = "a") -> list[float]:
        return [at for at, asked, engine in self.asked if (asked, engine) == (what, name)]

    async def _answer(self, what: str, engine: Engine, answer: Answer) -> bool:
        self.asked.append((self.now, what, engine.name))
        if engine.name in self.hanging:
            await asyncio.Event().wait()
        return answer()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
def world() -> World:
    return World()


def engine(name: str = "a", *, unproven: bool = False) -> Engine:
    return Engine(name, f"http://{name}:8000", breaker=Breaker(unproven=unproven))


def pool(*engines: Engine, lane: str = "lowlatency", clock: Callable[[], float] = lambda: 0.0) -> EnginePool:
    return EnginePool(lane, engines, RoundRobin(), clock)


def in_service(engine: Engine) -> bool:
    return engine.healthy


@asynccontextmanager
async def probing(world: World, *pools: EnginePool, patience: float = 60.0, warms: bool = False) -> AsyncIterator[None]:
    prober = Prober(
        pools,
        health=world.ask_health,
        generate=world.ask_generation,
        warm=world.warm_up if warms else already_warm,
        interval=5.0,
        timeout=patience,
        clock=world.clock,
        sleep=world.sleep,
        observer=world.observe,
    )
    task = asyncio.create_task(prober.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def test_a_well_engine_is_asked_for_its_health_alone_each_interval(world: World) -> None:
    async with probing(world, pool(engine())):
        await world.pass_time(12)
    assert world.times("health") == [0.0, 5.0, 10.0]
    assert world.times("generate") == []
    assert world.events == []


async def test_health_that_fails_three_times_takes_the_engine_out(world: World) -> None:
    a = engine()
    world.health["a"] = ill
    world.generation["a"] = ill
    async with probing(world, pool(a)):
        await world.pass_time(9)
        assert in_service(a)
        await world.pass_time(2)
        assert not in_service(a)
    assert world.events == [EngineHealthChanged("lowlatency", "a", healthy=False, reason="3 failures in a row")]


async def test_a_refused_health_takes_the_engine_out_at_once(world: World) -> None:
    a = engine()
    world.health["a"] = refused
    async with probing(world, pool(a)):
        await world.pass_time(0)
        assert not in_service(a)


async def test_a_good_health_does_not_forgive_requests_that_were_never_answered(world: World) -> None:
    """Case H4: /health says 200 all the time, and nothing is generated."""
    a = engine()
    world.generation["a"] = ill
    lane = pool(a, clock=world.clock)
    async with probing(world, lane):
        for _ in range(3):
            await world.pass_time(20)
            lane.lease().release(EngineOutcome.FAILURE)
        await world.pass_time(120)
        assert not in_service(a)
        world.generation["a"] = well
        await world.pass_time(31)
        assert in_service(a)
    assert [event.healthy for event in world.events] == [False, True]
    assert world.events[1].reason == "a real generation succeeded"


async def test_an_outage_that_requests_found_is_probed_after_a_second_and_then_less_and_less_often(
    world: World,
) -> None:
    a = engine()
    world.generation["a"] = refused
    async with probing(world, pool(a)):
        await world.pass_time(2)
        a.breaker.record(EngineOutcome.UNREACHABLE, world.now)
        await world.pass_time(20)
    assert world.times("generate") == [3.0, 5.0, 9.0, 17.0]
    assert world.times("health") == [0.0]
    assert len(world.events) == 1


async def test_an_unproven_engine_has_to_generate_before_it_is_reported_well(world: World) -> None:
    a = engine(unproven=True)
    world.generation["a"] = ill
    async with probing(world, pool(a)):
        await world.pass_time(2)
        assert not in_service(a)
        world.generation["a"] = well
        await world.pass_time(2)
        assert in_service(a)
    assert world.events == [EngineHealthChanged("lowlatency", "a", healthy=True, reason="a real generation succeeded")]


async def test_an_engine_that_has_generated_is_warmed_before_it_is_in_service(world: World) -> None:
    a = engine(unproven=True)
    async with probing(world, pool(a), patience=0.01, warms=True):
        await world.pass_time(19)
        await asyncio.sleep(0.05)  # the prober's patience is not for a warm-up
        assert not in_service(a)
        await world.pass_time(2)
        assert in_service(a)
    assert [what for _, what, _ in world.asked] == ["generate", "warm", "health"]
    assert [event.healthy for event in world.events] == [True]


async def test_an_engine_whose_warm_up_fails_is_asked_again_and_less_and_less_often(world: World) -> None:
    a = engine(unproven=True)
    world.warmth["a"] = False
    async with probing(world, pool(a), warms=True):
        await world.pass_time(60)
        assert not in_service(a)
    assert world.times("generate") == world.times("warm") == [0.0, 21.0, 43.0]
    assert world.events == []


async def test_an_engine_that_is_too_busy_for_the_probe_is_not_proven_by_it(world: World) -> None:
    a = engine(unproven=True)

    def busy() -> bool:
        raise EngineAnswered(503, b"")

    world.generation["a"] = busy
    async with probing(world, pool(a)):
        await world.pass_time(10)
        assert not in_service(a)


async def test_a_stale_connection_to_health_says_nothing(world: World) -> None:
    a = engine()

    def stale() -> bool:
        raise EngineStale

    world.health["a"] = stale
    async with probing(world, pool(a)):
        await world.pass_time(60)
        assert in_service(a)


async def test_an_engine_that_hangs_holds_up_no_other(world: World) -> None:
    a, b = engine("a"), engine("b")
    world.hanging.add("a")
    async with probing(world, pool(a, b)):
        await world.pass_time(11)
    assert world.times("health", "a") == [0.0]
    assert world.times("health", "b") == [0.0, 5.0, 10.0]


async def test_an_answer_that_does_not_come_in_time_is_a_failure(world: World) -> None:
    a = engine(unproven=True)
    world.hanging.add("a")
    async with probing(world, pool(a), patience=0.01):
        await world.pass_time(0)
        await asyncio.sleep(0.05)
        assert a.breaker.probe_at(world.now) == 1.0


async def test_what_runs_on_a_sick_engine_is_not_touched(world: World) -> None:
    """Case H4: a stream that goes on keeps its engine, and does not bring it back either."""
    a = engine()
    lane = pool(a, clock=world.clock)
    lease = lane.lease()
    world.health["a"] = refused
    world.generation["a"] = ill
    async with probing(world, lane):
        await world.pass_time(60)
        assert a.in_flight == 1
        lease.release(EngineOutcome.SUCCESS)
        await world.pass_time(1)
        assert (a.in_flight, a.healthy) == (0, False)


async def test_an_engine_of_two_lanes_is_asked_once_and_reported_for_both(world: World) -> None:
    """Case H46: what is down is known, lane by lane."""
    a = engine()
    world.health["a"] = refused
    async with probing(world, pool(a, lane="lowlatency"), pool(a, lane="batch")):
        await world.pass_time(0.5)
    assert world.times("health") == [0.0]
    assert [(event.lane, event.healthy) for event in world.events] == [("lowlatency", False), ("batch", False)]
