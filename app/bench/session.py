"""A whole measurement: every cell of a run, a search, or a comparison in turns.

The first SIGINT or SIGTERM ends the cell that is measured and everything after it; what was measured so far is told. A
second one ends the process.
"""

import asyncio
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.bench import result
from app.bench.client import Client
from app.bench.comparison import rows, sequence
from app.bench.connection import Patience
from app.bench.load import Load
from app.bench.progress import Progress
from app.bench.report.markdown import cell_line
from app.bench.runner import Runner
from app.bench.search import Search
from app.bench.summary import Record, cell
from app.bench.target import Target
from app.bench.workload import Workload

MOST_ERRORS = 0.01
"""Share of requests that may fail at a level that passes the search."""


class NoModel(Exception):
    """The server cannot be reached, or names no model."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Args:
        loads: the cells, in order.
        workload: what is asked.
        facts: of the machine, for the result.
        patience, retries: as in `Client`.
    """

    loads: tuple[Load, ...]
    workload: Workload
    facts: dict[str, Any] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    retries: int = 0

    def client(self, target: Target) -> Client:
        """A client for a target."""
        return Client(target, self.patience, retries=self.retries)


class Session:
    """Measures cells until a signal comes.

    Args:
        progress: where it is told how far it is.

    Attributes:
        stopped: a signal has come.
    """

    def __init__(self, progress: Progress) -> None:
        self.stopped = False
        self._progress = progress
        self._task: asyncio.Task[Record] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listens for signals while the block runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            self._listen_no_more()

    def stop(self) -> None:
        """What a signal does."""
        self.stopped = True
        self._listen_no_more()
        if self._task is not None:
            self._task.cancel()

    async def cell(self, client: Client, workload: Workload, name: str, load: Load) -> result.Cell:
        """Measures one cell and tells of it; after a signal it is empty."""
        label = f"{name} {load.label}".strip()
        self._progress.begin(label, load)
        runner = Runner(client, workload, self._progress.step)
        self._task = asyncio.create_task(runner.measure(f"{name}/{load.label}", load))
        if self.stopped:
            self._task.cancel()
        record = await self._task
        self._task = None
        told = cell(record)
        self._progress.end(f"{label}: {cell_line(told)}")
        return told

    def _listen_no_more(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)


async def model_of(target: Target) -> str:
    """The first model that a server names.

    Raises:
        NoModel: it cannot be reached, or names none.
    """
    async with Client(target, Patience(first=10)) as client:
        try:
            status, content = await client.get("/v1/models")
            return str(orjson.loads(content)["data"][0]["id"])
        except OSError as error:
            raise NoModel(f"{target.url}: {error.strerror or error}") from error
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            advice = (
                "a key is needed: --header 'Authorization=Bearer KEY'" if status in (401, 403) else "name one: --model"
            )
            raise NoModel(f"{target.url}/v1/models names no model (status {status}); {advice}") from error


async def run(session: Session, target: Target, plan: Plan) -> result.Run:
    """Measures each load."""
    with session.listening():
        async with plan.client(target) as client:
            cells = [await session.cell(client, plan.workload, "", load) for load in plan.loads if not session.stopped]
    return _run(session, plan, cells, None)


async def find(session: Session, target: Target, plan: Plan, search: Search, limit_ms: float) -> result.Run:
    """Searches for the greatest concurrency; `plan.loads` has one load, whose concurrency is replaced by the level."""
    cells: list[result.Cell] = []
    with session.listening():
        async with plan.client(target) as client:
            while not session.stopped and (level := search.level) is not None:
                told = await session.cell(client, plan.workload, f"try {len(cells) + 1}:", plan.loads[0].at(level))
                cells.append(told)
                if not told["interrupted"]:
                    search.tell(good=passes(told, limit_ms))
    found: result.Search = {"limit_ms": limit_ms, "found": search.passed, "stopped": search.stopped}
    return _run(session, plan, cells, found)


def passes(told: result.Cell, limit_ms: float) -> bool:
    """Whether 95 % of first tokens came within the limit, and at most 1 % of requests failed."""
    ttft = told["ttft_ms"]
    failed = told["requests"] - told["ok"]
    return ttft is not None and ttft["p95"] < limit_ms and failed <= MOST_ERRORS * told["requests"]


async def compare(session: Session, sides: Mapping[str, Target], plan: Plan, rounds: int) -> result.Comparison:
    """Measures A and B in turns, `plan.loads[0]` each time."""
    cells: list[tuple[str, result.Cell]] = []
    with session.listening():
        async with plan.client(sides["A"]) as a, plan.client(sides["B"]) as b:
            for number, side in enumerate(sequence(rounds)):
                name = f"{side} {number + 1}/{4 * rounds}:"
                told = await session.cell({"A": a, "B": b}[side], plan.workload, name, plan.loads[0])
                if session.stopped:
                    break
                cells.append((side, told))
    return {
        "format": result.FORMAT,
        "kind": "compare",
        "facts": plan.facts,
        "workload": described(plan.workload),
        "sides": {side: target.described for side, target in sides.items()},
        "rows": rows(cells, plan.workload.seed),
        "cells": cells,
        "interrupted": session.stopped,
    }


def described(workload: Workload) -> dict[str, Any]:
    """A workload as a result tells it."""
    return {
        "model": workload.model,
        "endpoint": workload.endpoint,
        "prompt_tokens": list(workload.prompt_tokens),
        "shared_prefix": workload.shared_prefix,
        "max_tokens": workload.max_tokens,
        "ignore_eos": workload.ignore_eos,
        "seed": workload.seed,
        "extra": dict(workload.extra),
    }


def _run(session: Session, plan: Plan, cells: list[result.Cell], search: result.Search | None) -> result.Run:
    return {
        "format": result.FORMAT,
        "kind": "run",
        "facts": plan.facts,
        "workload": described(plan.workload),
        "cells": cells,
        "search": search,
        "interrupted": session.stopped,
    }
