"""Measures one cell: a closed or an open loop against a client."""

import asyncio
import gc
import itertools
import time
from collections.abc import Callable, Iterator

from app.bench.client import Client
from app.bench.load import Load, arrivals
from app.bench.outcome import NOT_SENT, Outcome
from app.bench.summary import Record
from app.bench.workload import Workload

MOST_OPEN = 4096
"""Requests that an open loop has open at most; an arrival above is counted as not sent."""
BEAT = 0.02
"""Seconds between two looks at how late the event loop is."""

Told = Callable[[Outcome], None]


class Runner:
    """Runs the cells of one client and workload.

    Args:
        client: who asks.
        workload: what is asked.
        told: called with each measured outcome.
    """

    def __init__(self, client: Client, workload: Workload, told: Told = lambda _: None) -> None:
        self._client = client
        self._workload = workload
        self._told = told

    async def measure(self, name: str, load: Load) -> Record:
        """A cell; `name` is part of what its prompts are drawn from, so a new name is a new set of prompts.

        Cancelled, it closes what is open and returns what it has, marked as interrupted: the caller decides what next.
        """
        record = Record(load)
        try:
            await self._users(load.users, self._numbered(f"{name}/warm-up", load.warmup, None), record.warmups.append)
            await self._measured(name, record)
        except asyncio.CancelledError:
            record.interrupted = True
        return record

    async def _measured(self, name: str, record: Record) -> None:
        def told(outcome: Outcome) -> None:
            record.outcomes.append(outcome)
            self._told(outcome)

        gc.freeze()  # what lives by now is not looked through again while it is measured
        beat = Heartbeat(record.lags)
        began, cpu = time.perf_counter(), time.process_time()
        try:
            if record.load.rate is None:
                end = None if record.load.duration is None else began + record.load.duration
                await self._users(record.load.users, self._numbered(name, record.load.requests, end), told)
            else:
                await self._arrive(name, record.load, record.load.rate, told)
        finally:
            record.seconds, record.cpu = time.perf_counter() - began, time.process_time() - cpu
            beat.stop()
            gc.unfreeze()

    def _numbered(self, name: str, most: int | None, end: float | None) -> Iterator[tuple[bytes, int]]:
        """Body and length of each request, up to a number of them or a time."""
        for number in itertools.count() if most is None else range(most):
            if end is not None and time.perf_counter() >= end:
                return
            yield self._workload.body(name, number), self._workload.length(number)

    async def _users(self, users: int, requests: Iterator[tuple[bytes, int]], told: Told) -> None:
        async def user() -> None:
            for body, length in requests:
                told(await self._client.ask(self._workload.path, body, prompt=length))

        async with asyncio.TaskGroup() as group:
            for _ in range(users):
                group.create_task(user())

    async def _arrive(self, name: str, load: Load, rate: float, told: Told) -> None:
        running = 0

        async def one(body: bytes, length: int, due: float) -> None:
            nonlocal running
            running += 1
            try:
                late = time.perf_counter() - due
                told(await self._client.ask(self._workload.path, body, prompt=length, late=late))
            finally:
                running -= 1

        began = time.perf_counter()
        times = arrivals(rate, f"{self._workload.seed}/{name}")
        async with asyncio.TaskGroup() as group:
            for (body, length), after in zip(self._numbered(name, load.requests, None), times, strict=False):
                if load.duration is not None and after >= load.duration:
                    break
                await asyncio.sleep(max(0.0, began + after - time.perf_counter()))
                if running >= MOST_OPEN:
                    told(Outcome(NOT_SENT, length, began + after, began + after))
                else:
                    group.create_task(one(body, length, began + after))


class Heartbeat:
    """Notes how late the event loop calls, every 20 ms, until it is stopped."""

    def __init__(self, lags: list[float]) -> None:
        self._lags = lags
        self._loop = asyncio.get_running_loop()
        self._timer = self._next()

    def stop(self) -> None:
        """The last note has been taken."""
        self._timer.cancel()

    def _next(self) -> asyncio.TimerHandle:
        self._due = time.perf_counter() + BEAT
        return self._loop.call_later(BEAT, self._beat)

    def _beat(self) -> None:
        self._lags.append(max(0.0, time.perf_counter() - self._due))
        self._timer = self._next()
