"""Settings in, running parts out: the only place that knows how everything fits together."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import structlog
from starlette.responses import Response

from app.batch import BatchService, BatchSurroundings
from app.keys import Keys
from app.metering import Metered
from app.metrics import Metrics
from app.observers import Observers
from app.pace import pacing
from app.recent import Recent
from app.sim import SimEngine, SimSettings
from app.sse import Pace
from app.warmup import log_warm_up, warm_ups
from config.settings import EngineSettings, Settings
from gateway.admission.choice import LaneNames
from gateway.admission.gate import Gate, LaneLimits
from gateway.admission.lanes import POLICIES as LANE_POLICIES
from gateway.buffer import Window
from gateway.call import Call, read_call, retrieval
from gateway.gateway import Gateway
from gateway.keys import Key
from gateway.lane import Lane, Limits
from gateway.models import ModelCatalogue
from gateway.probes import Probes
from gateway.quota import Quotas
from gateway.relay import Deadlines
from gateway.routing.breaker import Breaker
from gateway.routing.policies import POLICIES as ROUTING_POLICIES
from gateway.routing.pool import Engine, EnginePool
from gateway.routing.prober import Prober
from gateway.telemetry import (
    EngineHealthChanged,
    Observer,
    RequestEnded,
    WarmUpBurst,
    WarmUpEnded,
)
from gateway.ticker import Ticker
from gateway.upstream.client import EngineClient

log = structlog.get_logger("tokenlane")


@dataclass(slots=True)
class Service:
    """The running parts, as endpoints see them."""

    settings: Settings
    gateway: Gateway
    models: ModelCatalogue
    metrics: Metrics
    recent: Recent
    lanes: LaneNames
    pace: Pace
    batch: BatchService
    keys: Keys
    quotas: Quotas
    observer: Observer
    draining: bool = field(default=False)

    def read(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], request_id: str, key: Key | None = None
    ) -> Call:
        """Reads a request; raises what `read_call` does."""
        default = self.settings.default_lane
        return read_call(endpoint, body, headers, lanes=self.lanes, default=default, request_id=request_id, key=key)

    def read_retrieval(
        self, target: str, response_id: str, headers: Mapping[str, str], request_id: str, key: Key | None = None
    ) -> Call:
        """Reads a request for a stored response as a stream; raises what `retrieval` does."""
        lanes, default = self.lanes, self.settings.default_lane
        return retrieval(target, response_id, headers, lanes=lanes, default=default, request_id=request_id, key=key)

    def metered(self, response: Response, key: Key | None) -> Response:
        """The response, within the limits of the key that asks for it."""
        return response if key is None or not key.limited else Metered(response, key, self.quotas, self.observer)

    def not_ready(self) -> list[str]:
        """Why requests should not be sent here, empty if they should."""
        reasons = ["draining"] if self.draining else []
        reasons += [] if self.keys.ring.loaded else ["the keys cannot be read"]
        return reasons + [_why_down(lane) for lane in self.gateway.lanes.values() if not lane.pool.capacity()]

    def drain(self) -> None:
        """Stops admission; what runs goes on."""
        self.draining = True
        self.batch.drain()
        self.gateway.drain()


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Service]:
    """Everything that serves these settings, for as long as the block lasts."""
    async with AsyncExitStack() as stack:
        engines = await _engines(settings, stack)
        distinct = {id(e): e for each in engines.values() for e in each}.values()
        times = settings.timeouts
        ticker = Ticker(asyncio.get_running_loop())
        stack.callback(ticker.close)
        client = EngineClient(
            pool_size=_connections(distinct),
            keepalive=times.keepalive_s,
            connect_timeout=times.connect_s,
            ticker=ticker,
        )
        stack.push_async_callback(client.aclose)
        lanes = _lanes(settings, engines)
        gates = {id(lane.gate): lane.gate for lane in lanes.values()}.values()
        metrics = Metrics(
            lambda: [gate.statistics() for gate in gates],
            lambda: [lane.pool for lane in lanes.values()],
            lambda: batch.figures,
        )
        recent = Recent(lanes, asyncio.get_running_loop().time)
        observers = Observers()
        observers.add(metrics)
        observers.add(recent, RequestEnded)
        observers.add(log_warm_up, WarmUpBurst, WarmUpEnded)
        gateway = Gateway(lanes, client, ticker, observers, _deadlines(settings), _limits(settings))
        observers.add(gateway.observe, EngineHealthChanged)
        await stack.enter_async_context(_watched(settings, lanes, client, observers))
        defaults = {name: lane.defaults.given() for name, lane in settings.lanes.items()}
        priorities = {name: lane.priority for name, lane in settings.lanes.items() if lane.priority is not None}
        names = LaneNames(tuple(lanes), settings.default_lane, settings.batch_lane, defaults, priorities)
        pace = Pace(settings.timeouts.commit_after_s, settings.timeouts.ping_s)
        models = ModelCatalogue(client, list(distinct))
        keys = Keys(settings)
        stack.push_async_callback(keys.aclose)
        await keys.start()
        pacer, paces_lane = await stack.enter_async_context(pacing(settings, gateway, names, observers))
        around = BatchSurroundings(settings, gateway, names, models, pacer, paces_lane, keys.ring)
        batch = await stack.enter_async_context(_batches(around))
        quotas = await stack.enter_async_context(_quotas(settings))
        yield Service(settings, gateway, models, metrics, recent, names, pace, batch, keys, quotas, observers)


@asynccontextmanager
async def _quotas(settings: Settings) -> AsyncIterator[Quotas]:
    """The limits of keys, counted here or in Redis, for as long as the block lasts."""
    clock, url = asyncio.get_running_loop().time, settings.keys.redis_url
    if url is None:
        yield Quotas(clock)
        return
    from gateway.quota.redis import connected  # noqa: PLC0415 - the extra `redis` may not be installed

    async with connected(url.get_secret_value()) as shared:
        yield Quotas(clock, shared, report=_redis_report)


def _redis_report(back: bool) -> None:
    if back:
        log.info("Redis is back: gateways count the limits of keys together again")
    else:
        log.warning("Redis cannot be reached: this gateway counts the limits of keys for itself")


@asynccontextmanager
async def _batches(around: BatchSurroundings) -> AsyncIterator[BatchService]:
    """Files and batches for as long as the block lasts."""
    service = BatchService(around)
    try:
        service.start()
        yield service
    finally:
        await service.aclose()


def _why_down(lane: Lane) -> str:
    warming = [f"{engine.name} {engine.warming}" for engine in lane.pool.engines if engine.warming]
    return f"lane {lane.name} is warming: {', '.join(warming)}" if warming else f"lane {lane.name} has no engine"


def _connections(engines: Iterable[Engine]) -> int:
    """As many as any address may need: two lanes may name the same one, and each brings its own slots."""
    needed: Counter[str] = Counter()
    for engine in engines:
        needed[engine.url] += engine.pool_size
    return max(needed.values())


async def _engines(settings: Settings, stack: AsyncExitStack) -> dict[str, list[Engine]]:
    """The engines of each lane. In topology `single` all lanes hold the same ones."""
    owners = [settings.default_lane] if settings.topology == "single" else list(settings.lanes)
    made: dict[str, list[Engine]] = {}
    for lane in owners:
        configured = settings.engines_of(lane) or (await _embedded(settings, lane, stack),)
        pool_size, failures = settings.lanes[lane].pool_size, settings.health.failures
        made[lane] = [_engine(each, each.pool_size or pool_size, failures) for each in configured]
    return {lane: made[lane if lane in made else settings.default_lane] for lane in settings.lanes}


async def _embedded(settings: Settings, lane: str, stack: AsyncExitStack) -> EngineSettings:
    """Starts a simulated engine for a lane."""
    sim = settings.sim
    pace = SimSettings(model=sim.model, ttft_ms=sim.ttft_ms, itl_ms=sim.itl_ms, tokens=sim.tokens)
    engine = await stack.enter_async_context(SimEngine(pace))
    log.warning("no engine is configured: a SIMULATED one answers, and its text has no meaning", lane=lane)
    return EngineSettings(url=engine.url, name=f"{lane}-sim", kind="sim")


def _engine(configured: EngineSettings, pool_size: int, failures: int) -> Engine:
    key = configured.api_key.get_secret_value() if configured.api_key else None
    return Engine(
        configured.name,
        configured.url,
        kind=configured.kind,
        api_key=key or None,
        pool_size=pool_size,
        breaker=Breaker(threshold=failures, unproven=configured.kind == "vllm"),
    )


@asynccontextmanager
async def _watched(
    settings: Settings, lanes: Mapping[str, Lane], client: EngineClient, observer: Observer
) -> AsyncIterator[None]:
    """Probes the engines for as long as the block lasts."""
    probes = Probes(client)
    prober = Prober(
        [lane.pool for lane in lanes.values()],
        health=probes.health,
        generate=probes.generate,
        warm=warm_ups(settings, lanes, client, observer),
        interval=settings.health.interval_s,
        observer=observer,
    )
    watching = asyncio.create_task(prober.run())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


def _lanes(settings: Settings, engines: Mapping[str, Sequence[Engine]]) -> dict[str, Lane]:
    gates = _gates(settings)
    lanes = {}
    for name, configured in settings.lanes.items():
        pool = EnginePool(name, engines[name], ROUTING_POLICIES[configured.routing]())
        window = Window(configured.buffer.tokens, configured.buffer.delay_ms / 1000)
        slots = gates[name].statistics().slots
        lanes[name] = Lane(name, gates[name], pool, window, configured.buffer.strategy, slots, configured.overflow)
    return lanes


def _gates(settings: Settings) -> dict[str, Gate]:
    """One gate a lane; in topology `single` one for all, with slots kept in reserve for the default lane."""
    clock = asyncio.get_running_loop().time
    limits = {n: LaneLimits(lane.queue, lane.patience_s, lane.slots) for n, lane in settings.lanes.items()}
    if settings.topology == "single":
        policy = LANE_POLICIES["reserve"](settings.default_lane, settings.single.reserve)
        slots = settings.slots_of(settings.default_lane)
        return dict.fromkeys(limits, Gate("single", slots, limits, policy, clock))
    policies = {name: LANE_POLICIES["fifo"](settings.default_lane, 0) for name in limits}
    return {n: Gate(n, settings.slots_of(n), {n: each}, policies[n], clock) for n, each in limits.items()}


def _deadlines(settings: Settings) -> Deadlines:
    times = settings.timeouts
    return Deadlines(times.first_token_s, times.gap_s, times.write_deadline_s, times.answer_s)


def _limits(settings: Settings) -> Limits:
    limits = settings.limits
    return Limits(limits.event_bytes, limits.buffer_high_water_bytes, limits.answer_bytes)
