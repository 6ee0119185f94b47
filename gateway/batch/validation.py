"""Reads the input file of a batch and keeps its lines; nothing runs before all of it was found good."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import BinaryIO

from gateway.batch.blobs import Blobs
from gateway.batch.jobs import KEY_GONE, Batch, NewLine, Problem
from gateway.batch.lines import LineReader, Rules
from gateway.batch.store import Ledger, LinesExceeded, Worker
from gateway.errors import KeyRejected

CHUNK = 500
"""Lines that are read, and kept, at a time."""

Knows = Callable[[str], bool]
"""Whether a model is served."""


@dataclass(frozen=True, slots=True)
class Validator:
    """What validation needs.

    `models` gives the rule for model names, None where no engine can be asked now: then names are not checked.
    `bound_of` says how many lines an owner may have waiting, None: as many as it likes; it raises KeyRejected where the
    owner is good no more.
    """

    ledger: Ledger
    blobs: Blobs
    models: Callable[[], Awaitable[Knows | None]]
    max_lines: int
    line_bytes: int
    bound_of: Callable[[str | None], int | None] = lambda _: None

    async def validate(self, worker: Worker, batch: Batch, clock: Callable[[], float]) -> None:
        """Moves a batch that this worker holds to in_progress or failed. Raises LeaseLost, StoreUnavailable."""
        await self.ledger.drop_lines(batch)
        rules = Rules(batch.endpoint, self.max_lines, self.line_bytes, await self.models())
        reader = LineReader(rules)
        try:
            file = await asyncio.to_thread(self.blobs.open, batch.input_file_id)
        except OSError:
            problem = Problem("invalid_request", "The input file does not exist any more.", param="input_file_id")
            await self.ledger.fail(worker, batch, [problem], int(clock()))
            return
        with file:
            await self._read(worker, batch, reader, file, clock)
        if reader.problems or reader.model is None:
            await self.ledger.fail(worker, batch, reader.problems, int(clock()))
        else:
            await self._begin(worker, batch, reader.model, reader.count, int(clock()))

    async def _begin(self, worker: Worker, batch: Batch, model: str, total: int, now: int) -> None:
        try:
            most = self.bound_of(batch.owner)
            await self.ledger.begin(worker, batch, model=model, total=total, now=now, most=most)
        except KeyRejected as error:
            await self.ledger.fail(worker, batch, [Problem(KEY_GONE, str(error))], now)
        except LinesExceeded as error:
            message = (
                f"Enqueued line limit reached for this API key. Limit: {most} enqueued lines. {error.waiting} wait "
                f"already, this batch has {total}. Please try again once some in_progress batches have been completed."
            )
            await self.ledger.fail(worker, batch, [Problem("line_limit_exceeded", message)], now)

    async def _read(
        self, worker: Worker, batch: Batch, reader: LineReader, file: BinaryIO, clock: Callable[[], float]
    ) -> None:
        more = True
        while more:
            lines, more = await asyncio.to_thread(self._chunk, file, reader)
            await self.ledger.add_lines(worker, batch, [] if reader.problems else lines, clock())
        reader.finish()

    def _chunk(self, file: BinaryIO, reader: LineReader) -> tuple[list[NewLine], bool]:
        """The good ones of the next lines, and whether there is more."""
        lines: list[NewLine] = []
        for _ in range(CHUNK):
            start = file.tell()
            raw = file.readline(self.line_bytes + 1)
            if not raw:
                return lines, False
            length = len(raw)
            while not raw.endswith(b"\n") and (rest := file.readline(self.line_bytes)):
                length += len(rest)
                if rest.endswith(b"\n"):
                    break
            if (line := reader.read(raw, start, length)) is not None:
                lines.append(line)
        return lines, True
