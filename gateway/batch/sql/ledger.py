"""What the runner asks of the database about batches: who moves which one on."""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, CursorResult, Update, and_, delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.batch.census import OPEN, Census
from gateway.batch.jobs import SETTLE_S, STORAGE_ERROR, Batch, File, LineState, NewLine, Problem, Status
from gateway.batch.sql.rows import file_row, problems_text, read_batch
from gateway.batch.sql.tables import batches, files, lines
from gateway.batch.sql.turns import SqlTurns
from gateway.batch.store import LeaseLost, LinesExceeded, Outcome, Worker


class SqlLedger(SqlTurns):
    """A `Ledger` in SQL: batches here, lines in `SqlTurns`."""

    async def claim_batch(self, worker: Worker, now: float, leave: Collection[int] = ()) -> Batch | None:
        """See `Ledger`."""
        free = _free(now) | (batches.c.worker == worker.id)
        query = select(batches).where(free, _movable(now), batches.c.seq.not_in(leave)).order_by(batches.c.seq).limit(1)
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            return None
        batch = read_batch(dict(row))
        mine = update(batches).where(batches.c.seq == batch.seq, batches.c.status == batch.status, free)
        async with self._database.writing() as connection:
            claim = await connection.execute(mine.values(worker=worker.id, lease_until=now + worker.lease_s))
        return batch if claim.rowcount else None

    async def add_lines(self, worker: Worker, batch: Batch, new: Sequence[NewLine], now: float) -> None:
        """See `Ledger`."""
        fixed = {"batch": batch.seq, "state": LineState.PENDING, "attempts": 0, "not_before": 0.0, "lease_until": 0.0}
        rows = [{**fixed, **{name: getattr(line, name) for name in NewLine.__slots__}} for line in new]
        held = _held(worker, batch).values(lease_until=now + worker.lease_s)
        async with self._database.writing() as connection:
            _must(await connection.execute(held.where(batches.c.status == Status.VALIDATING)))
            if rows:
                await connection.execute(insert(lines), rows)

    async def drop_lines(self, batch: Batch) -> None:
        """See `Ledger`."""
        async with self._database.writing() as connection:
            await connection.execute(delete(lines).where(lines.c.batch == batch.seq))

    async def begin(
        self, worker: Worker, batch: Batch, *, model: str, total: int, now: int, most: int | None = None
    ) -> None:
        """See `Ledger`."""
        change = _held(worker, batch).where(batches.c.status == Status.VALIDATING)
        async with self._database.writing() as connection:
            if most is not None and (waiting := await _waiting(connection, batch)) + total > most:
                raise LinesExceeded(waiting)
            values = {"status": Status.IN_PROGRESS, "model": model, "total": total, "in_progress_at": now}
            _must(await connection.execute(change.values(**values, worker=None, lease_until=0.0)))

    async def fail(self, worker: Worker, batch: Batch, problems: Sequence[Problem], now: int) -> None:
        """See `Ledger`."""
        values = {"status": Status.FAILED, "failed_at": now, "problems": problems_text(problems)}
        async with self._database.writing() as connection:
            await connection.execute(delete(lines).where(lines.c.batch == batch.seq))
            _must(await connection.execute(_held(worker, batch).values(**values, worker=None, lease_until=0.0)))

    async def complain(self, worker: Worker, batch: Batch, problem: Problem) -> None:
        """See `Ledger`."""
        change = _held(worker, batch).values(problems=_with(batch, problem), worker=None, lease_until=0.0)
        async with self._database.writing() as connection:
            await connection.execute(change)

    async def give_up(self, worker: Worker, batch: Batch, problem: Problem, now: int) -> None:
        """See `Ledger`."""
        values: dict[str, object] = {"status": Status.FAILED, "ending": Status.FAILED, "failed_at": now}
        values |= {"problems": _with(batch, problem), "worker": None, "lease_until": 0.0}
        async with self._database.writing() as connection:
            _must(await connection.execute(_held(worker, batch).values(values)))

    async def let_go(self, worker: Worker, batch: Batch) -> None:
        """See `Ledger`."""
        async with self._database.writing() as connection:
            await connection.execute(_held(worker, batch).values(worker=None, lease_until=0.0))

    async def stop(self, batch: int, problem: Problem, now: int) -> None:
        """See `Ledger`."""
        change = update(batches).where(batches.c.seq == batch, batches.c.status == Status.IN_PROGRESS)
        values = {"status": Status.CANCELLING, "cancelling_at": now, "problems": problems_text([problem])}
        async with self._database.writing() as connection:
            await connection.execute(change.values(**values, worker=None, lease_until=0.0))

    async def census(self) -> Census:
        """See `Ledger`."""
        left = func.sum(batches.c.total - batches.c.completed - batches.c.failed).label("left")
        query = select(batches.c.status, func.count().label("count"), left).where(batches.c.status.in_(OPEN))
        async with self._database.reading() as connection:
            rows = (await connection.execute(query.group_by(batches.c.status))).mappings().all()
        counts = {Status(row["status"]): int(row["count"]) for row in rows}
        return Census(counts, sum(int(row["left"]) for row in rows if row["status"] == Status.IN_PROGRESS))

    async def settle(self, worker: Worker, batch: Batch, now: int) -> Batch:
        """See `Ledger`."""
        cancelled = batch.status is Status.CANCELLING
        complete = batch.completed + batch.failed == batch.total
        ending = Status.CANCELLED if cancelled else Status.COMPLETED if complete else Status.EXPIRED
        left = LineState.CANCELLED if cancelled else LineState.EXPIRED
        pending = (lines.c.batch == batch.seq, lines.c.state == LineState.PENDING)
        values = {"ending": ending, "failed": batches.c.total - batches.c.completed}
        values |= {} if cancelled else {"status": Status.FINALIZING, "finalizing_at": now}
        async with self._database.writing() as connection:
            await connection.execute(update(lines).where(*pending).values(state=left, worker=None))
            _must(await connection.execute(_held(worker, batch).values(values)))
            return await _one(connection, batch.seq)

    async def outcomes(self, batch: Batch, after: int, limit: int) -> list[Outcome]:
        """See `Ledger`."""
        query = select(lines.c.number, lines.c.custom_id, lines.c.state, lines.c.output)
        query = query.where(lines.c.batch == batch.seq, lines.c.number > after).order_by(lines.c.number).limit(limit)
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [Outcome(row.number, row.custom_id, LineState(row.state), row.output or b"") for row in rows]

    async def close(self, worker: Worker, batch: Batch, output: File | None, errors: File | None, now: int) -> None:
        """See `Ledger`."""
        values: dict[str, object] = {
            "output_file_id": output.id if output else None,
            "error_file_id": errors.id if errors else None,
        }
        if batch.over:  # it had failed for want of room, and stays so
            values["ending"] = ""
        else:
            kept = [problem for problem in batch.problems if problem.code != STORAGE_ERROR]
            values |= {"status": batch.ending, f"{batch.ending}_at": now, "problems": problems_text(kept)}
        written = [file_row(file) for file in (output, errors) if file is not None]
        async with self._database.writing() as connection:
            _must(await connection.execute(_held(worker, batch).values(**values, worker=None, lease_until=0.0)))
            for row in written:
                await connection.execute(insert(files).values(row))
            await connection.execute(delete(lines).where(lines.c.batch == batch.seq))


def _held(worker: Worker, batch: Batch) -> Update:
    return update(batches).where(batches.c.seq == batch.seq, batches.c.worker == worker.id)


def _with(batch: Batch, problem: Problem) -> str | None:
    """The batch's problems with this one, which takes the place of one with the same code."""
    return problems_text([*(each for each in batch.problems if each.code != problem.code), problem])


async def _waiting(connection: AsyncConnection, batch: Batch) -> int:
    """Lines without a result in the batches of the same owner that are in progress.

    The owner's batches are locked first, so that of two that begin at once the second one sees the first.
    """
    mine = batches.c.owner.is_(None) if batch.owner is None else batches.c.owner == batch.owner
    going = (mine, batches.c.status.in_((Status.VALIDATING, Status.IN_PROGRESS)))
    await connection.execute(select(batches.c.seq).where(*going).order_by(batches.c.seq).with_for_update())
    left = func.sum(batches.c.total - batches.c.completed - batches.c.failed)
    waiting = (await connection.execute(select(left).where(*going, batches.c.seq != batch.seq))).scalar()
    return int(waiting or 0)


def _must(done: CursorResult[object]) -> None:
    if done.rowcount != 1:
        raise LeaseLost


def _free(now: float) -> ColumnElement[bool]:
    return batches.c.worker.is_(None) | (batches.c.lease_until < now)


def _movable(now: float) -> ColumnElement[bool]:
    """Batches for which something is to be done: `Batch` draws the states."""
    status, whole = batches.c.status, batches.c.completed + batches.c.failed == batches.c.total
    run = exists().where(lines.c.batch == batches.c.seq, lines.c.worker.is_not(None), lines.c.lease_until >= now)
    settled = ~run | (batches.c.cancelling_at + SETTLE_S <= now)
    late = ~run | (batches.c.expires_at + SETTLE_S <= now)
    return or_(
        status.in_((Status.VALIDATING, Status.FINALIZING)),
        and_(status == Status.FAILED, batches.c.ending != ""),
        and_(status == Status.IN_PROGRESS, or_(whole, and_(batches.c.expires_at <= now, late))),
        and_(status == Status.CANCELLING, settled),
    )


async def _one(connection: AsyncConnection, seq: int) -> Batch:
    row = (await connection.execute(select(batches).where(batches.c.seq == seq))).mappings().one()
    return read_batch(dict(row))
