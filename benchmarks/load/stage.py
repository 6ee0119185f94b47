"""Engines and proxies as processes of their own, on cores of their own, and a load on one of them.

The last core is the proxies'. Engines and this process, which is the client, share the first, or have as many of the
first as there are engines. None of the processes outlives this one.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.load.answers import Wanted, judge
from benchmarks.load.cells import PLAIN, PROSE, STAMPED, Cell
from benchmarks.load.client import ask_all
from benchmarks.load.figures import Figures, figures
from benchmarks.load.metering import Meter, machine
from benchmarks.load.proxies import Proxy
from benchmarks.proof.process import GUARD, TOKENLANE, free_port, own_variables, pinned

GRACE = 10
"""Seconds between being asked to stop and being killed."""
READY = 60.0
"""Seconds until the first right answer."""


class NotReady(Exception):
    """A process gave no right answer; the message says what it gave."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Numbers of CPUs; none: wherever the system likes."""

    own: Sequence[int] = ()
    proxies: Sequence[int] = ()


def shared_out(allowed: Sequence[int], engines: int) -> Cores:
    """Who gets which of the CPUs that this process may use."""
    if len(allowed) < 2:
        return Cores()
    return Cores(allowed[: min(engines, len(allowed) - 1)], allowed[-1:])


class Stage:
    """Engines that run, and the proxies that were started; `stage` makes one."""

    def __init__(
        self, engines: Sequence[int], meters: Sequence[Meter], cores: Cores, folder: Path, stack: ExitStack
    ) -> None:
        self.engines = engines
        self.direct = Proxy("direct", engines)
        self.cores = cores
        self._engine_meters = meters
        self._folder = folder
        self._stack = stack
        self._meters: dict[str, Meter] = {}
        self._wanted: dict[bool, Wanted] = {}

    def enter(self, proxy: Proxy) -> None:
        """Starts a proxy, and returns when it answers right.

        Raises:
            NotReady: it does not.
        """
        if proxy.command:
            self._meters[proxy.name] = self._stack.enter_context(
                process(proxy.command, self._folder / f"{proxy.name}.log", self.cores.proxies, **proxy.variables)
            )
        self._until_right(proxy)

    def play(self, proxy: Proxy, cell: Cell) -> Figures:
        """Asks a proxy for all answers of a cell."""
        meter = self._meters.get(proxy.name)
        before = self._used(meter)
        recordings = ask_all(proxy.ports, cell)
        seconds, cpu, busy, everything = (late - early for late, early in zip(self._used(meter), before, strict=True))
        wanted = self._wanted.get(cell.stream, Wanted())
        seen = [judge(recording, cell, wanted) for recording in recordings]
        return figures(
            seen,
            cell,
            seconds,
            cpu=cpu if meter else None,
            busy=busy / seconds,
            others=(everything - busy - cpu) / seconds,
            memory=meter.memory() if meter else None,
        )

    def pids(self, proxy: Proxy) -> set[int]:
        """The processes of a proxy that was started."""
        return self._meters[proxy.name].pids()

    def _used(self, meter: Meter | None) -> tuple[float, float, float, float]:
        """Seconds: of the clock, of CPU of a proxy, of engines and client, of everything on the machine."""
        own = time.process_time() + sum(each.cpu() for each in self._engine_meters)
        return time.monotonic(), meter.cpu() if meter else 0.0, own, machine()

    def _until_right(self, proxy: Proxy) -> None:
        until = time.monotonic() + READY
        while (wrong := self._wrong(proxy)) is not None:
            if time.monotonic() > until:
                raise NotReady(f"{proxy.name} gave no right answer within {READY:.0f} s: {wrong}")
            time.sleep(0.2)

    def _wrong(self, proxy: Proxy) -> str | None:
        """What is wrong with its answers; those of the first that is asked, the engine, are what is wanted later."""
        for port, cell in product(proxy.ports, (PROSE, STAMPED, PLAIN)):
            [recording] = ask_all([port], cell)
            seen = judge(recording, cell, self._wanted.get(cell.stream, Wanted()))
            if seen.wrong is not None:
                return seen.wrong
            self._wanted.setdefault(cell.stream, Wanted(seen.text, seen.prompt))
        return None


@contextmanager
def stage(folder: Path, engines: int = 1) -> Iterator[Stage]:
    """Starts engines; they and all proxies end with the block.

    Raises:
        NotReady: an engine does not answer.
    """
    allowed = sorted(os.sched_getaffinity(0))
    cores = shared_out(allowed, engines)
    ports = [free_port() for _ in range(engines)]
    with ExitStack() as stack:
        if cores.own:
            os.sched_setaffinity(0, cores.own)
            stack.callback(os.sched_setaffinity, 0, allowed)
        meters = [stack.enter_context(_engine(port, folder, cores)) for port in ports]
        made = Stage(ports, meters, cores, folder, stack)
        made.enter(made.direct)
        yield made


def _engine(port: int, folder: Path, cores: Cores) -> AbstractContextManager[Meter]:
    command = [*TOKENLANE, "sim", "--host", "127.0.0.1", "--port", str(port)]
    return process(command, folder / f"engine-{port}.log", cores.own)


@contextmanager
def process(command: Sequence[str], log: Path, cores: Sequence[int], **variables: str) -> Iterator[Meter]:
    """A process with a guard that ends it, and all that it started, with the block or with this process."""
    guarded = [sys.executable, "-I", str(GUARD), str(GRACE), *pinned(cores), *command]
    with log.open("wb") as output:
        guard = subprocess.Popen(
            guarded, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=log.parent, env=own_variables(**variables)
        )
    try:
        yield Meter(guard.pid)
    finally:
        if guard.stdin is not None:
            guard.stdin.close()
        guard.wait(GRACE + 15)
