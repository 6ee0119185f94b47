"""What the runner asks of the database about lines: whose turn it is, and what became of it."""

from typing import Any

from sqlalchemy import ColumnElement, Update, select, update

from gateway.batch.jobs import Line, LineState, Result, Status
from gateway.batch.sql.database import Database
from gateway.batch.sql.rows import USAGE
from gateway.batch.sql.tables import batches, lines
from gateway.batch.store import Worker

CLAIMED = ("batch", "number", "custom_id", "start", "length", "attempts")
"""Columns of a line that is given out: fields of `Line`."""


class SqlTurns:
    """The part of a `Ledger` that is about lines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim_lines(self, worker: Worker, now: float, limit: int, after: int) -> list[Line]:
        """See `Ledger`."""
        runs = select(batches.c.seq, batches.c.input_file_id, batches.c.endpoint, batches.c.owner)
        runs = runs.where(batches.c.status == Status.IN_PROGRESS, batches.c.expires_at > now).order_by(batches.c.seq)
        async with self._database.reading() as connection:
            active = (await connection.execute(runs)).all()
        for batch in sorted(active, key=lambda row: (row.seq <= after, row.seq)):
            if claimed := await self._claim(worker, now, limit, batch.seq):
                shared = {"input_file_id": batch.input_file_id, "endpoint": batch.endpoint, "owner": batch.owner}
                return [Line(**row, **shared) for row in claimed]
        return []

    async def _claim(self, worker: Worker, now: float, limit: int, seq: int) -> list[dict[str, Any]]:
        turn = select(*(lines.c[name] for name in CLAIMED)).with_for_update(skip_locked=True)
        turn = turn.where(
            lines.c.batch == seq, lines.c.state == LineState.PENDING, lines.c.not_before <= now, _free(now)
        )
        turn = turn.order_by(lines.c.prefix, lines.c.number).limit(limit)
        async with self._database.writing() as connection:
            rows = [dict(row) for row in (await connection.execute(turn)).mappings()]
            if rows:
                mine = update(lines).where(lines.c.batch == seq, lines.c.number.in_([row["number"] for row in rows]))
                await connection.execute(mine.values(worker=worker.id, lease_until=now + worker.lease_s))
        return rows

    async def record(self, worker: Worker, line: Line, result: Result) -> bool:
        """See `Ledger`."""
        count = batches.c.completed if result.state is LineState.DONE else batches.c.failed
        counts = {count: count + 1}
        counts |= {batches.c[name]: batches.c[name] + getattr(result.usage, name) for name in USAGE}
        once = _held(worker, line).values(state=result.state, output=result.output, worker=None)
        async with self._database.writing() as connection:
            if not (await connection.execute(once)).rowcount:
                return False
            await connection.execute(update(batches).where(batches.c.seq == line.batch).values(counts))
        return True

    async def put_back(self, worker: Worker, line: Line, *, not_before: float, failed: bool) -> None:
        """See `Ledger`."""
        change = _held(worker, line)
        change = change.values(
            worker=None, lease_until=0.0, not_before=not_before, attempts=lines.c.attempts + int(failed)
        )
        async with self._database.writing() as connection:
            await connection.execute(change)

    async def renew(self, worker: Worker, now: float) -> None:
        """See `Ledger`."""
        async with self._database.writing() as connection:
            for table in (lines, batches):
                held = update(table).where(table.c.worker == worker.id)
                await connection.execute(held.values(lease_until=now + worker.lease_s))

    async def release(self, worker: Worker) -> None:
        """See `Ledger`."""
        async with self._database.writing() as connection:
            for table in (lines, batches):
                held = update(table).where(table.c.worker == worker.id)
                await connection.execute(held.values(worker=None, lease_until=0.0))


def _held(worker: Worker, line: Line) -> Update:
    mine = (lines.c.batch == line.batch, lines.c.number == line.number, lines.c.worker == worker.id)
    return update(lines).where(*mine, lines.c.state == LineState.PENDING)


def _free(now: float) -> ColumnElement[bool]:
    return lines.c.worker.is_(None) | (lines.c.lease_until < now)
