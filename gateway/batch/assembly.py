"""Writes the output and the error file of a batch from its lines: each line is in exactly one of them, in order."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from gateway.batch.blobs import Blobs, BlobWriter
from gateway.batch.jobs import Batch, File, LineState, Purpose
from gateway.batch.objects import REASONS, unanswered
from gateway.batch.store import Ledger, Outcome, Worker

PAGE = 100
"""Lines that are held in memory at a time."""


@dataclass(frozen=True, slots=True)
class Assembler:
    """What assembly needs. `ttl` is the life of output files in seconds where the batch names none."""

    ledger: Ledger
    blobs: Blobs
    ttl: int

    async def assemble(self, worker: Worker, batch: Batch, now: int) -> None:
        """Ends a settled batch that this worker holds. Raises LeaseLost, StoreUnavailable, OSError.

        The ids of the files follow from the batch's: whoever does it again after a crash writes the same files.
        """
        output, errors = _id_of(batch, "output"), _id_of(batch, "error")
        with ExitStack() as stack:
            writers = [stack.enter_context(await asyncio.to_thread(self.blobs.write, id_)) for id_ in (output, errors)]
            await self._write(batch, *writers)
            for writer in writers:
                if writer.size:
                    await asyncio.to_thread(writer.commit)
        sizes = [writer.size for writer in writers]
        await self.ledger.close(
            worker, batch, self._file(batch, output, sizes[0], now), self._file(batch, errors, sizes[1], now), now
        )

    async def _write(self, batch: Batch, output: BlobWriter, errors: BlobWriter) -> None:
        after = 0
        while page := await self.ledger.outcomes(batch, after, PAGE):
            await asyncio.to_thread(_append, page, output, errors)
            after = page[-1].number

    def _file(self, batch: Batch, file_id: str, size: int, now: int) -> File | None:
        if not size:
            return None
        kind = "output" if file_id == _id_of(batch, "output") else "error"
        expires_at = now + (batch.output_ttl or self.ttl)
        return File(
            file_id, batch.owner, f"{batch.id}_{kind}.jsonl", Purpose.BATCH_OUTPUT, size, now, expires_at=expires_at
        )


def _append(page: Sequence[Outcome], output: BlobWriter, errors: BlobWriter) -> None:
    for outcome in page:
        if outcome.state is LineState.DONE:
            output.write(outcome.output + b"\n")
        else:
            errors.write((outcome.output or _not_run(outcome)) + b"\n")


def _not_run(outcome: Outcome) -> bytes:
    line_id = line_id_of(outcome.custom_id, outcome.number)
    return unanswered(line_id, outcome.custom_id, str(outcome.state), REASONS[outcome.state])


def line_id_of(*parts: object) -> str:
    """`batch_req_...` from what makes a line unique."""
    return "batch_req_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _id_of(batch: Batch, kind: str) -> str:
    return "file-" + hashlib.sha256(f"{batch.id} {kind}".encode()).hexdigest()[:24]
