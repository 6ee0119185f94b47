"""Moves batches from state to state, and keeps house: what has expired is removed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.batch.assembly import Assembler
from gateway.batch.blobs import Blobs
from gateway.batch.jobs import STORAGE_ERROR, Batch, Problem, Status
from gateway.batch.store import Catalogue, LeaseLost, Ledger, Worker
from gateway.batch.validation import Validator
from gateway.telemetry import BatchEnded, BatchLines, LineOutcome, Observer, ignore

HOUSE_S = 600.0
"""Seconds from one look at what has expired to the next."""

ORPHAN_S = 3600.0
"""Age of a file on the disk that the database does not know: its upload died before it was kept."""

STUCK_S = 5.0
"""Seconds until a batch whose files cannot be written is tried again; twice as long each time, up to `MOST_S`."""

MOST_S = 300.0

GIVE_UP_S = 900.0
"""Seconds that a batch waits for a disk that it cannot use before it has failed; what it has is kept."""


@dataclass(slots=True)
class Mover:
    """Moves one batch at a time. `clock` gives seconds of the epoch; `report` writes the log, `observer` counts."""

    ledger: Ledger
    catalogue: Catalogue
    blobs: Blobs
    validator: Validator
    assembler: Assembler
    clock: Callable[[], float]
    report: Callable[..., None]
    observer: Observer = ignore
    _stuck: dict[int, "_Stuck"] = field(default_factory=dict)
    _cleaned_at: float = float("-inf")

    async def move_one(self, worker: Worker) -> bool:
        """Moves the next batch that can be moved; False if there is none. Raises StoreUnavailable."""
        now = self.clock()
        if now - self._cleaned_at >= HOUSE_S:
            self._cleaned_at = now
            await self._clean(int(now))
        stuck = [seq for seq, each in self._stuck.items() if now < each.until]
        batch = await self.ledger.claim_batch(worker, now, stuck)
        if batch is None:
            return False
        try:
            await self._move(worker, batch)
        except LeaseLost:
            return True  # cancelled meanwhile, or another gateway was quicker
        except OSError as error:
            await self._complain(worker, batch, error)
            return True
        self._stuck.pop(batch.seq, None)
        if (moved := await self.catalogue.batch(batch.id, batch.owner)) is not None:
            counts = {"total": moved.total, "completed": moved.completed, "failed": moved.failed}
            self.report("batch", batch=batch.id, status=str(moved.status), **counts)
            if moved.over and not batch.over:
                self.observer(BatchEnded(str(moved.status)))
        return True

    async def _move(self, worker: Worker, batch: Batch) -> None:
        if batch.status is Status.VALIDATING:
            await self.validator.validate(worker, batch, self.clock)
            return
        if not batch.ending:
            settled = await self.ledger.settle(worker, batch, int(self.clock()))
            if left := settled.failed - batch.failed:
                cancelled = settled.ending == Status.CANCELLED
                self.observer(BatchLines(LineOutcome.CANCELLED if cancelled else LineOutcome.EXPIRED, left))
            batch = settled
        await self.assembler.assemble(worker, batch, int(self.clock()))

    async def _complain(self, worker: Worker, batch: Batch, error: OSError) -> None:
        """Says in the batch's `errors` what the disk has, and waits; at last the batch has failed.

        Results stay in the database until they are written: those of a failed batch too, whenever there is room.
        """
        now = self.clock()
        stuck = self._stuck.setdefault(batch.seq, _Stuck(since=now))
        stuck.until, stuck.wait = now + stuck.wait, min(2 * stuck.wait, MOST_S)
        self.report("a batch cannot be moved on", batch=batch.id, error=repr(error))
        reason = error.strerror or type(error).__name__
        if not batch.over and now - stuck.since >= GIVE_UP_S:
            message = f"Its files could not be read or written for {GIVE_UP_S / 60:.0f} minutes: {reason}."
            await self._give_up(worker, batch, message)
            self.observer(BatchEnded(str(Status.FAILED)))
        elif not batch.over:
            message = f"Its files cannot be read or written now: {reason}. No result is lost."
            await self.ledger.complain(worker, batch, Problem(STORAGE_ERROR, message))
        else:
            await self.ledger.let_go(worker, batch)

    async def _give_up(self, worker: Worker, batch: Batch, message: str) -> None:
        now = int(self.clock())
        if batch.status is Status.VALIDATING:
            await self.ledger.fail(worker, batch, [Problem(STORAGE_ERROR, message)], now)
            return
        message += " Its results are kept, and are written as soon as there is room."
        await self.ledger.give_up(worker, batch, Problem(STORAGE_ERROR, message), now)

    async def _clean(self, now: int) -> None:
        spent = await self.catalogue.spent_files(now)
        for file_id in spent:
            await self.catalogue.delete_file(file_id)
        aged = await asyncio.to_thread(self.blobs.aged, ORPHAN_S)
        known = await self.catalogue.file_ids() if aged else set()
        for file_id in {*spent, *(each for each in aged if each not in known)}:
            await asyncio.to_thread(self.blobs.delete, file_id)


@dataclass(slots=True)
class _Stuck:
    """A batch whose files cannot be read or written: since when, until when it is left alone, for how long next."""

    since: float
    until: float = 0.0
    wait: float = STUCK_S
