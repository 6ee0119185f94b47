"""What is kept of files, batches and lines: two protocols, one for the endpoints, one for the runner.

Rules that every store keeps, whatever kills a process and however many gateways share it:

- Who works on a line or a batch holds a lease, (worker, until). What has no lease, or one that is over, may be taken.
- Only the holder of a line's lease can record its result, and only while the line has none: exactly one a line.
- Only the holder of a batch's lease moves it on; `cancel` alone comes from outside.

Times are seconds of the epoch, by the clock of the caller: clocks of gateways that share a store must agree within a
fraction of a lease.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.batch.census import Census
from gateway.batch.jobs import Batch, File, Line, LineState, NewLine, Problem, Result


class StoreUnavailable(Exception):
    """The database cannot be reached or used, or is locked. The same may work later."""


class StoreFull(StoreUnavailable):
    """The database's disk is full."""


class LeaseLost(Exception):
    """Another worker has taken what this one held, or the batch is cancelled."""


class LinesExceeded(Exception):
    """The lines of a batch would be more than its key may have waiting. `waiting` are those of its other batches."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} lines wait already")
        self.waiting = waiting


@dataclass(frozen=True, slots=True)
class Worker:
    """Who holds leases: an id of its own for each process, and for how many seconds a lease holds."""

    id: str
    lease_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a line, for the output files; `output` is empty where it was not run."""

    number: int
    custom_id: str
    state: LineState
    output: bytes


class Catalogue(Protocol):
    """What the endpoints ask. `owner` is the id of a key, None where there are no keys: others' things are not seen.

    All of it raises StoreUnavailable.
    """

    async def add_file(self, file: File) -> None:
        """Keeps a file whose bytes are there."""

    async def file(self, file_id: str, owner: str | None, now: int) -> File | None:
        """A file that has not expired."""

    async def files(
        self, owner: str | None, now: int, *, purpose: str | None, after: str | None, limit: int, oldest_first: bool
    ) -> tuple[list[File], bool]:
        """A page, and whether there is more. Raises KeyError where `after` is no file."""

    async def delete_file(self, file_id: str) -> None:
        """Forgets it."""

    async def reads(self, file_id: str) -> str | None:
        """The id of a batch that is not over and reads this file."""

    async def spent_files(self, now: int) -> list[str]:
        """The ids of files that have expired and that no batch reads."""

    async def file_ids(self) -> set[str]:
        """The ids of all files."""

    async def add_batch(self, batch: Batch) -> Batch:
        """Keeps a batch; it gets its `seq`."""

    async def batch(self, batch_id: str, owner: str | None) -> Batch | None:
        """A batch."""

    async def batches(self, owner: str | None, *, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """A page, newest first, and whether there is more. Raises KeyError where `after` is no batch."""

    async def cancel(self, batch_id: str, now: int) -> None:
        """Cancels it, if it is validating or in progress."""


class Ledger(Protocol):
    """What the runner asks. All of it raises StoreUnavailable."""

    async def claim_batch(self, worker: Worker, now: float, leave: Collection[int] = ()) -> Batch | None:
        """A batch that can be moved on: validated, settled, or written; none whose `seq` is in `leave`.

        A batch that has failed is among them while it has results that are not written.

        A worker moves one batch at a time: what it still holds from before may be given to it again.
        """

    async def add_lines(self, worker: Worker, batch: Batch, lines: Sequence[NewLine], now: float) -> None:
        """Keeps lines of a batch that is being validated. Raises LeaseLost."""

    async def drop_lines(self, batch: Batch) -> None:
        """Forgets all of a batch's lines."""

    async def begin(
        self, worker: Worker, batch: Batch, *, model: str, total: int, now: int, most: int | None = None
    ) -> None:
        """It is valid: its lines may run. Raises LeaseLost; LinesExceeded beyond `most` lines of its owner."""

    async def fail(self, worker: Worker, batch: Batch, problems: Sequence[Problem], now: int) -> None:
        """It is not. Its lines are forgotten. Raises LeaseLost."""

    async def complain(self, worker: Worker, batch: Batch, problem: Problem) -> None:
        """Says why it does not move on; the lease is given back."""

    async def give_up(self, worker: Worker, batch: Batch, problem: Problem, now: int) -> None:
        """It has failed, but its results are kept, and it is claimed again until they are written. Raises LeaseLost."""

    async def let_go(self, worker: Worker, batch: Batch) -> None:
        """Gives the lease back."""

    async def settle(self, worker: Worker, batch: Batch, now: int) -> Batch:
        """No line runs any more: those without a result get their final state. Raises LeaseLost."""

    async def outcomes(self, batch: Batch, after: int, limit: int) -> list[Outcome]:
        """Lines in order, from the one behind number `after`."""

    async def close(self, worker: Worker, batch: Batch, output: File | None, errors: File | None, now: int) -> None:
        """Its files are written; the lines are forgotten. Raises LeaseLost."""

    async def claim_lines(self, worker: Worker, now: float, limit: int, after: int) -> list[Line]:
        """Lines of one batch, the next one behind `seq` number `after` in turn; lines that begin alike together."""

    async def record(self, worker: Worker, line: Line, result: Result) -> bool:
        """Writes a result; False if the line was not this worker's any more: then nothing is written."""

    async def stop(self, batch: int, problem: Problem, now: int) -> None:
        """Cancels a batch in progress, by its `seq`, from inside; the problem says why."""

    async def put_back(self, worker: Worker, line: Line, *, not_before: float, failed: bool) -> None:
        """Gives a line back to be run later; `failed` counts the attempt."""

    async def census(self) -> Census:
        """What there is that is not over."""

    async def renew(self, worker: Worker, now: float) -> None:
        """Prolongs every lease of this worker."""

    async def release(self, worker: Worker) -> None:
        """Gives back everything that this worker holds."""


__all__ = ["Catalogue", "LeaseLost", "Ledger", "LinesExceeded", "Outcome", "StoreFull", "StoreUnavailable", "Worker"]
