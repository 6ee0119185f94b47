"""The loops that work batches off: one runs lines, one moves batches on, one keeps the leases.

Nothing here is cancelled in the middle of a word with the database: `stop` cuts the requests of lines that run, and
every loop ends at its next step. A process that is killed instead leaves leases that others take over when they end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from gateway.batch.assembly import line_id_of
from gateway.batch.blobs import Blobs
from gateway.batch.census import Census, Figures, figures
from gateway.batch.execution import Cut, Executor, KeyGone, LaneDown, TryAgain
from gateway.batch.jobs import KEY_GONE, Line, LineState, Problem, Result
from gateway.batch.moves import Mover
from gateway.batch.objects import unanswered
from gateway.batch.outage import Outage
from gateway.batch.pace import Own
from gateway.batch.store import Ledger, StoreUnavailable, Worker
from gateway.errors import Draining
from gateway.pacing.pacer import LOOK_S
from gateway.telemetry import BatchLines, LineOutcome, Observer, ignore

RETRY_S = 1.0
"""Seconds until a line that failed is tried again; twice as long each time."""


class Report(Protocol):
    """Whoever writes the log."""

    def __call__(self, happening: str, **details: object) -> None:
        """Takes one happening; details are ids, states and counts, never a prompt."""


@dataclass(slots=True)
class Runner:
    """Runs until it is stopped.

    `pace` says how many lines may begin, `clock` gives seconds of the epoch, `poll_s` is how often the database is
    asked for what other gateways left, `census_s` how often what there is is counted; `observer` counts lines.
    """

    ledger: Ledger
    blobs: Blobs
    executor: Executor
    mover: Mover
    pace: Own
    worker: Worker
    clock: Callable[[], float]
    report: Report
    poll_s: float = 2.0
    outage: Outage = field(default_factory=Outage)
    observer: Observer = ignore
    census_s: float = 5.0
    _census: Census | None = None
    _counted_at: float = float("-inf")
    _running: dict[asyncio.Task[None], Cut] = field(default_factory=dict)
    _turn: int = 0
    _draining: bool = False
    _stopping: bool = False
    _lines_bell: asyncio.Event = field(default_factory=asyncio.Event)
    _moves_bell: asyncio.Event = field(default_factory=asyncio.Event)
    _end_bell: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> int:
        """Lines that run now."""
        return len(self._running)

    @property
    def figures(self) -> Figures:
        """What there is to show."""
        return figures(self._census, running=self.running, pace=self.pace.limit, ceiling=self.pace.ceiling)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    async def run(self) -> None:
        """Works until `stop`, then gives every lease back."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_lines(group))
                group.create_task(self._move_batches())
                group.create_task(self._keep_leases())
        finally:
            with suppress(StoreUnavailable):
                await self.ledger.release(self.worker)

    def wake(self) -> None:
        """There is something new to do."""
        self._moves_bell.set()
        self._lines_bell.set()

    def drain(self) -> None:
        """Begins nothing new; lines that run go on."""
        self._draining = True

    def stop(self) -> None:
        """Ends `run` soon: lines that run are cut and given back."""
        self._draining = self._stopping = True
        for bell in (self._lines_bell, self._moves_bell, self._end_bell):
            bell.set()
        for cut in self._running.values():
            cut(Draining("The gateway was shut down.", retry_after=5))

    async def _run_lines(self, group: asyncio.TaskGroup) -> None:
        while not self._stopping:
            claimed = await self._claim()
            for line in claimed:
                self._turn = line.batch
                cut = Cut()
                task = group.create_task(self._run_line(line, cut))
                self._running[task] = cut
                task.add_done_callback(self._ended)
            if not claimed:
                if not self._running and not self.pace.pacer.paused:
                    self._moves_bell.set()  # a batch may be complete
                await _rest(self._lines_bell, self._until_next_look())

    def _until_next_look(self) -> float:
        if self._running or self.outage.on or self.pace.pacer.paused:
            return LOOK_S if self.outage.on else self.pace.pacer.look_s
        return self.poll_s

    async def _claim(self) -> list[Line]:
        now = asyncio.get_running_loop().time()
        room = self.pace.room(self.running)
        if self.outage.on:
            room = 1 - self.running if now >= self.outage.until else 0
        if room <= 0 or not self._begins():
            return []
        try:
            claimed = await self.ledger.claim_lines(self.worker, self.clock(), room, self._turn)
        except StoreUnavailable as error:
            self.report("the database of batches cannot be used", error=str(error))
            return []
        if not self._begins():  # any more: nobody would cut what begins now
            for line in claimed:
                await self._insist(partial(self.ledger.put_back, self.worker, line, not_before=0.0, failed=False))
            return []
        if claimed:
            self.pace.began()
        return claimed

    def _begins(self) -> bool:
        """Whether new lines are begun."""
        return not self._draining

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._lines_bell.set()

    async def _run_line(self, line: Line, cut: Cut) -> None:
        outcome = await self._outcome(line, cut)
        self.observer(BatchLines(_counts_as(outcome)))
        if isinstance(outcome, LaneDown):
            self.outage.failed(asyncio.get_running_loop().time(), outcome.retry_after)
            await self._insist(lambda: self.ledger.put_back(self.worker, line, not_before=0.0, failed=False))
            return
        if isinstance(outcome, KeyGone):
            await self._stop_batch(line, outcome)
            return
        self.outage.ended()
        if isinstance(outcome, TryAgain):
            again = self.clock() + RETRY_S * 2**line.attempts
            await self._insist(lambda: self.ledger.put_back(self.worker, line, not_before=again, failed=True))
        else:
            await self._insist(lambda: self.ledger.record(self.worker, line, outcome))

    async def _stop_batch(self, line: Line, gone: KeyGone) -> None:
        """Its lines that run go on; this one and the others are not run."""
        problem = Problem(KEY_GONE, gone.message)
        await self._insist(lambda: self.ledger.stop(line.batch, problem, int(self.clock())))
        await self._insist(lambda: self.ledger.put_back(self.worker, line, not_before=0.0, failed=False))
        self._moves_bell.set()

    async def _outcome(self, line: Line, cut: Cut) -> Result | LaneDown | TryAgain | KeyGone:
        try:
            raw = await asyncio.to_thread(self.blobs.read, line.input_file_id, line.start, line.length)
            return await self.executor.run(line, raw, cut)
        except OSError as error:
            self.report("a line cannot be read", batch=line.batch, line=line.number, error=repr(error))
            return LaneDown(None) if not isinstance(error, FileNotFoundError) else _not_run(line)
        except Exception as error:  # noqa: BLE001 - a fault with one line, of this program or the disk, stops no other
            self.report("a line cannot be run", batch=line.batch, line=line.number, error=repr(error))
            return _not_run(line)

    async def _insist(self, write: Callable[[], Awaitable[object]]) -> None:
        """Writes what became of a line, however long the database is away: the answer was paid for."""
        wait = 0.1
        while True:
            try:
                await write()
            except StoreUnavailable as error:
                self.report("what became of a line cannot be written", error=str(error))
            else:
                return
            if self._stopping:
                return
            await _rest(self._end_bell, wait)
            wait = min(2 * wait, 5.0)

    async def _move_batches(self) -> None:
        while not self._stopping:
            moved = False
            if not self._draining:
                try:
                    moved = await self.mover.move_one(self.worker)
                    await self._take_census()
                except StoreUnavailable as error:
                    self._census = None
                    self.report("the database of batches cannot be used", error=str(error))
            if moved:
                self._lines_bell.set()
            else:
                await _rest(self._moves_bell, self.poll_s)

    async def _take_census(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._counted_at >= self.census_s:
            self._census = await self.ledger.census()
            self._counted_at = now

    async def _keep_leases(self) -> None:
        while not self._stopping:
            await _rest(self._end_bell, self.worker.lease_s / 3)
            try:
                await self.ledger.renew(self.worker, self.clock())
            except StoreUnavailable as error:
                self.report("leases cannot be renewed", error=str(error))


def _not_run(line: Line) -> Result:
    message = "The gateway failed with this request; its log tells the operator why."
    line_id = line_id_of(line.batch, line.number)
    return Result(LineState.FAILED, unanswered(line_id, line.custom_id, "internal_error", message))


def _counts_as(outcome: Result | LaneDown | TryAgain | KeyGone) -> LineOutcome:
    if isinstance(outcome, Result):
        return LineOutcome.DONE if outcome.state is LineState.DONE else LineOutcome.FAILED
    return {LaneDown: LineOutcome.LANE_DOWN, TryAgain: LineOutcome.AGAIN, KeyGone: LineOutcome.KEY_GONE}[type(outcome)]


async def _rest(bell: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
    bell.clear()
