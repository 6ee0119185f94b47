"""All of it together: clients against a gateway whose engines are in trouble, then a look at what is left."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from app.sim.settings import SimSettings
from benchmarks.chaos import processes, watch
from benchmarks.chaos.asks import LANES, Ask, draw, plain
from benchmarks.chaos.client import Client
from benchmarks.chaos.oracle import Circumstances, judge
from benchmarks.chaos.processes import Program
from benchmarks.chaos.report import Report
from benchmarks.chaos.trouble import Troubles
from benchmarks.chaos.truth import expected

BURST = 40
"""Requests at once, now and then: more than a lane's slots and queue hold."""
SETTLES = 20.0
"""Seconds in which everything has to be given back once the clients have gone."""
SIM = SimSettings(jitter=0.3, tokens=60)
"""The settings of every engine, as `processes.engine` starts it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how hard: seconds in all and of the warm-up, and clients that ask one request after another."""

    seed: str
    seconds: float
    warm_up: float
    users: int


class Storm:
    """One run.

    Args:
        plan: how long and how hard.
        lanes: the engines of each lane, which are up.
        gateway: in front of them, ready.
    """

    def __init__(self, plan: Plan, lanes: dict[str, list[Program]], gateway: Program) -> None:
        self.report = Report(plan.seed)
        self._plan = plan
        self._lanes = lanes
        self._gateway = gateway
        self._engines = [engine for engines in lanes.values() for engine in engines]
        self._troubles = Troubles(self._engines, Random(f"{plan.seed} troubles"))
        self._ends_at = time.monotonic() + plan.seconds

    async def run(self) -> Report:
        """From the first request to the last look."""
        before = watch.sockets(self._gateway.pid)
        async with asyncio.TaskGroup() as group:
            for user in range(self._plan.users):
                group.create_task(self._user(user))
            group.create_task(self._bursts())
            group.create_task(self._measure())
            troubling = group.create_task(self._troubles.run())
            await asyncio.sleep(self._plan.seconds)
            troubling.cancel()
        self.report.troubles = self._troubles.counts
        await self._look(before)
        await self._full_house()
        await self._look(before)
        self.report.rss_mib["end"] = watch.rss_mib(self._gateway.pid)
        await self._stop()
        return self.report

    async def _user(self, number: int) -> None:
        client = Client(self._gateway.port)
        random = Random(f"{self._plan.seed} user {number}")
        turn = 0
        while time.monotonic() < self._ends_at:
            turn += 1
            await self._ask(client, draw(f"{self._plan.seed}.{number}.{turn}"))
            await asyncio.sleep(random.uniform(0, 0.4))
        client.close()

    async def _bursts(self) -> None:
        random = Random(f"{self._plan.seed} bursts")
        number = 0
        while time.monotonic() < self._ends_at - 5:
            await asyncio.sleep(random.uniform(3, 15))
            number += 1
            await self._at_once([draw(f"{self._plan.seed}.burst{number}.{turn}") for turn in range(BURST)])

    async def _measure(self) -> None:
        await asyncio.sleep(self._plan.warm_up)
        self.report.rss_mib["start"] = watch.rss_mib(self._gateway.pid)

    async def _at_once(self, asks: Sequence[Ask]) -> list[str]:
        """Each by a client of its own; the names of the engines that answered."""
        clients = [Client(self._gateway.port) for _ in asks]
        engines = await asyncio.gather(*(self._ask(c, ask) for c, ask in zip(clients, asks, strict=True)))
        for client in clients:
            client.close()
        return engines

    async def _ask(self, client: Client, ask: Ask) -> str:
        started = time.monotonic()
        answer = await client.perform(ask)
        engine = answer.headers.get("x-tokenlane-engine", "")
        names = [engine] if engine else [each.name for each in self._lanes[ask.lane]]
        troubled = self._troubles.befell(names, started, time.monotonic())
        wrongs = judge(ask, expected(ask, SIM), answer, Circumstances(troubled, processes.COMMIT_AFTER))
        self.report.count(ask, answer, troubled=troubled, wrongs=wrongs)
        return engine if answer.status == 200 else ""

    async def _look(self, sockets_before: int) -> None:
        """Waits until nothing is held; what is still there then is left."""
        left: dict[str, int] = {}
        until = time.monotonic() + SETTLES
        while time.monotonic() < until:
            left = await watch.held(self._gateway)
            left["sockets"] = max(0, watch.sockets(self._gateway.pid) - sockets_before)
            left["generations"] = await watch.generating(self._engines)
            if not any(left.values()):
                break
            await asyncio.sleep(0.5)
        for what, count in left.items():
            self.report.left[what] = max(count, self.report.left.get(what, 0))

    async def _full_house(self) -> None:
        """As many requests as there are slots, at once: all are answered, by all engines alike."""
        await self._all_in_service()
        each = processes.POOL * processes.ENGINES_A_LANE
        asks = [
            plain(f"{self._plan.seed}.full.{lane}.{n}", lane, tokens=150, itl_ms=10)
            for lane in LANES
            for n in range(each)
        ]
        engines = await self._at_once(asks)
        missing = {engine.name: processes.POOL - engines.count(engine.name) for engine in self._engines}
        self.report.left["places at engines"] = sum(abs(count) for count in missing.values())

    async def _all_in_service(self, patience: float = 45) -> None:
        """Returns when the gateway asks every engine again, by itself."""
        began = time.monotonic()
        async with asyncio.timeout(patience):
            while await watch.out_of_service(self._gateway):  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.2)
        self.report.notes["all engines in service again after"] = f"{time.monotonic() - began:.1f} s"

    async def _stop(self) -> None:
        self._gateway.tell(signal.SIGTERM)
        code = await self._gateway.ended(15)
        self.report.left["exit code"] = -1 if code is None else code
        log = self._gateway.log.read_text(errors="replace")
        self.report.left["tracebacks in the log"] = log.count("Traceback") + log.count("never retrieved")


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[tuple[dict[str, list[Program]], Program]]:
    """The engines and the gateway, up and ready; nothing of them is left afterwards."""
    names = [f"{lane}-{n}" for lane in LANES for n in range(processes.ENGINES_A_LANE)]
    own, *ports = processes.free_ports(len(names) + 1)
    engines = [processes.engine(name, port, folder) for name, port in zip(names, ports, strict=True)]
    lanes = {lane: [engine for engine in engines if engine.name.startswith(lane)] for lane in LANES}
    gateway = processes.gateway(lanes, own, folder)
    try:
        for program in engines:
            await program.start()
        for program in engines:
            await program.until("/health")
        await gateway.start()
        await gateway.until("/ready")
        yield lanes, gateway
    finally:
        for program in (gateway, *engines):
            program.tell(signal.SIGKILL)
            await program.ended(5)
