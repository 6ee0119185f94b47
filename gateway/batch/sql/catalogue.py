"""What the endpoints ask of the database."""

from typing import Any

from sqlalchemy import ColumnElement, Table, delete, insert, select, update

from gateway.batch.jobs import OVER, Batch, File, Status
from gateway.batch.sql.database import Database
from gateway.batch.sql.rows import batch_row, file_row, read_batch, read_file
from gateway.batch.sql.tables import batches, files


class SqlCatalogue:
    """A `Catalogue` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_file(self, file: File) -> None:
        """See `Catalogue`."""
        async with self._database.writing() as connection:
            await connection.execute(insert(files).values(file_row(file)))

    async def file(self, file_id: str, owner: str | None, now: int) -> File | None:
        """See `Catalogue`."""
        query = select(files).where(files.c.id == file_id, _owned(files, owner), _alive(now))
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).mappings().first()
        return read_file(dict(row)) if row else None

    async def files(
        self, owner: str | None, now: int, *, purpose: str | None, after: str | None, limit: int, oldest_first: bool
    ) -> tuple[list[File], bool]:
        """See `Catalogue`."""
        wanted = [_owned(files, owner), _alive(now)]
        if purpose is not None:
            wanted.append(files.c.purpose == purpose)
        rows = await self._page(files, wanted, after=after, owner=owner, limit=limit, oldest_first=oldest_first)
        return [read_file(row) for row in rows[:limit]], len(rows) > limit

    async def delete_file(self, file_id: str) -> None:
        """See `Catalogue`."""
        async with self._database.writing() as connection:
            await connection.execute(delete(files).where(files.c.id == file_id))

    async def reads(self, file_id: str) -> str | None:
        """See `Catalogue`."""
        query = select(batches.c.id).where(batches.c.input_file_id == file_id, _open()).limit(1)
        async with self._database.reading() as connection:
            found: str | None = (await connection.execute(query)).scalar()
        return found

    async def spent_files(self, now: int) -> list[str]:
        """See `Catalogue`."""
        used = select(batches.c.input_file_id).where(_open())
        query = select(files.c.id).where(files.c.expires_at <= now, files.c.id.not_in(used))
        async with self._database.reading() as connection:
            return list((await connection.execute(query)).scalars())

    async def file_ids(self) -> set[str]:
        """See `Catalogue`."""
        async with self._database.reading() as connection:
            return set((await connection.execute(select(files.c.id))).scalars())

    async def add_batch(self, batch: Batch) -> Batch:
        """See `Catalogue`."""
        async with self._database.writing() as connection:
            await connection.execute(insert(batches).values(batch_row(batch)))
            row = (await connection.execute(select(batches).where(batches.c.id == batch.id))).mappings().one()
        return read_batch(dict(row))

    async def batch(self, batch_id: str, owner: str | None) -> Batch | None:
        """See `Catalogue`."""
        query = select(batches).where(batches.c.id == batch_id, _owned(batches, owner))
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).mappings().first()
        return read_batch(dict(row)) if row else None

    async def batches(self, owner: str | None, *, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """See `Catalogue`."""
        wanted = [_owned(batches, owner)]
        rows = await self._page(batches, wanted, after=after, owner=owner, limit=limit, oldest_first=False)
        return [read_batch(row) for row in rows[:limit]], len(rows) > limit

    async def cancel(self, batch_id: str, now: int) -> None:
        """See `Catalogue`."""
        able = batches.c.status.in_((Status.VALIDATING, Status.IN_PROGRESS))
        change = update(batches).where(batches.c.id == batch_id, able)
        change = change.values(status=Status.CANCELLING, cancelling_at=now, worker=None, lease_until=0.0)
        async with self._database.writing() as connection:
            await connection.execute(change)

    async def _page(
        self,
        table: Table,
        wanted: list[ColumnElement[bool]],
        *,
        after: str | None,
        owner: str | None,
        limit: int,
        oldest_first: bool,
    ) -> list[dict[str, Any]]:
        """One row more than `limit`, if there are so many."""
        seq = table.c.seq
        async with self._database.reading() as connection:
            if after is not None:
                query = select(seq).where(table.c.id == after, _owned(table, owner))
                if (place := (await connection.execute(query)).scalar()) is None:
                    raise KeyError(after)
                wanted = [*wanted, seq > place if oldest_first else seq < place]
            order = seq.asc() if oldest_first else seq.desc()
            rows = await connection.execute(select(table).where(*wanted).order_by(order).limit(limit + 1))
            return [dict(row) for row in rows.mappings()]


def _owned(table: Table, owner: str | None) -> ColumnElement[bool]:
    return table.c.owner.is_(None) if owner is None else table.c.owner == owner


def _alive(now: int) -> ColumnElement[bool]:
    return files.c.expires_at.is_(None) | (files.c.expires_at > now)


def _open() -> ColumnElement[bool]:
    return batches.c.status.not_in(tuple(OVER))
