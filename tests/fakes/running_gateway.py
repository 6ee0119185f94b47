"""A whole gateway inside the test's event loop: real uvicorn on a free port, real sockets, simulated engines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

import httpx
from openai import AsyncOpenAI

from app.main import create_app
from app.serve import Server, listen, uvicorn_config
from app.sim import SimEngine, SimSettings
from app.sim.server import Request
from app.wiring import Service
from config.settings import Settings


class _QuietServer(Server):
    """Signals belong to the test runner, nothing is printed, and the end is not polled for."""

    def __init__(self, settings: Settings, *, straight: bool) -> None:
        app = create_app(settings, straight=straight)
        super().__init__(uvicorn_config(app, settings), app, grace=0)
        self.up = asyncio.Event()
        self.stop = asyncio.Event()

    def serving(self) -> None:
        self.up.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stop.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class RunningGateway:
    """What a test needs of a gateway that runs.

    Attributes:
        url: of its root.
        http: an ordinary HTTP client for it.
        openai: the official client for it.
        service: the running parts, for counts.
    """

    def __init__(self, url: str, service: Service) -> None:
        self.url = url
        self.service = service
        unlimited = httpx.Limits(max_connections=None)
        self.http = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False, limits=unlimited, verify=False)  # noqa: S501

    @cached_property
    def openai(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key="client-key", max_retries=0, timeout=30)

    async def aclose(self) -> None:
        if "openai" in vars(self):
            await self.openai.close()
        await self.http.aclose()

    def held(self) -> dict[str, int]:
        """Everything that requests hold now; all zero when none is there."""
        gateway = self.service.gateway
        gates = {id(lane.gate): lane.gate.statistics() for lane in gateway.lanes.values()}.values()
        pools = gateway.client.statistics().values()
        engines = {id(e): e for lane in gateway.lanes.values() for e in lane.pool.engines}.values()
        return {
            "requests": len(gateway.live),
            "slots": sum(g.running for g in gates),
            "waiting": sum(g.waiting for g in gates),
            "connections": sum(p.in_use + p.connecting for p in pools),
            "leases": sum(e.in_flight for e in engines),
        }

    async def is_ready(self) -> None:
        """Waits until every lane has an engine that has proven itself."""
        for _ in range(400):
            if not self.service.not_ready():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"not ready: {self.service.not_ready()}")

    async def settles(self) -> None:
        """Waits until nothing is held; fails with what is left."""
        for _ in range(200):
            if not any(self.held().values()):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"still held: {self.held()}")


@asynccontextmanager
async def running_gateway(settings: Settings, *, straight: bool = True) -> AsyncIterator[RunningGateway]:
    """A gateway for as long as the block lasts; afterwards it has given everything back, and no task is left.

    `straight`: inference requests take the short way, past FastAPI's routing.
    """
    before = asyncio.all_tasks()
    listening = listen(settings.server)
    server = _QuietServer(settings, straight=straight)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await server.up.wait()
    gateway = RunningGateway(f"http://127.0.0.1:{listening.getsockname()[1]}", server.service)
    try:
        yield gateway
        await gateway.settles()
    finally:
        await gateway.aclose()
        server.stop.set()
        await serving
        listening.close()
    left = {
        t
        for t in asyncio.all_tasks() - before - {asyncio.current_task()}
        if not t.done() and "_shutdown_watcher" not in repr(t)
    }
    assert not left, f"tasks are left: {left}"


def asked(engine: SimEngine) -> list[Request]:
    """The requests that an engine got from clients: without the gateway's own questions after its health."""
    return [request for request in engine.requests if request.path.startswith("/v1/")]


def settings_for(*engines: SimEngine, **changes: Any) -> Settings:
    """Both lanes on the same engines, nothing logged, nothing warmed unless `changes` say so."""
    urls = [{"url": engine.url, "kind": "sim", "name": f"engine-{n}"} for n, engine in enumerate(engines)]
    lanes: dict[str, Any] = {"lowlatency": {"engines": urls}}
    lanes["batch"] = {"engines": [{**each, "name": f"batch-{each['name']}"} for each in urls]}
    for name, lane in changes.pop("lanes", {}).items():
        lanes.setdefault(name, {}).update(lane)
    server = {"port": 0, "access_log": False, **changes.pop("server", {})}
    return Settings(lanes=lanes, server=server, **{"warmup": {"mode": "off"}, **changes})


@asynccontextmanager
async def gateway_on_sim(
    sim: SimSettings | None = None, **changes: Any
) -> AsyncIterator[tuple[RunningGateway, SimEngine]]:
    """A gateway with one quick simulated engine behind both lanes."""
    quick = sim or SimSettings(ttft_ms=1, itl_ms=0.5, tokens=24)
    async with SimEngine(quick) as engine, running_gateway(settings_for(engine, **changes)) as gateway:
        yield gateway, engine
