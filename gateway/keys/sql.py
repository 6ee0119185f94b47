"""The keys in SQL, in the database of files and batches. Importing this imports the database's libraries."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, or_, select, update

from gateway.batch.sql.database import Database
from gateway.batch.sql.tables import api_keys
from gateway.keys.key import Key

LISTS = ("lanes", "models")


class NameTaken(Exception):
    """Another key that is not revoked has this name."""


class SqlKeys:
    """The keys of a database. Everything raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[Key]:
        """Every key, the oldest first, revoked ones too."""
        async with self._database.reading() as connection:
            rows = await connection.execute(select(api_keys).order_by(api_keys.c.seq))
            return [_read(dict(row)) for row in rows.mappings()]

    async def add(self, key: Key) -> None:
        """Keeps a new key. Raises NameTaken."""
        taken = select(api_keys.c.id).where(api_keys.c.name == key.name, api_keys.c.revoked_at.is_(None))
        async with self._database.writing() as connection:
            if (await connection.execute(taken)).first() is not None:
                raise NameTaken(key.name)
            await connection.execute(insert(api_keys).values(_row(key)))

    async def revoke(self, wanted: str, now: float) -> Key | None:
        """Revokes the key of this id, prefix or name; None if no key that is good has it."""
        columns = api_keys.c
        named = or_(columns.id == wanted, columns.prefix == wanted, columns.name == wanted)
        found = select(api_keys).where(named, columns.revoked_at.is_(None))
        async with self._database.writing() as connection:
            row = (await connection.execute(found)).mappings().first()
            if row is None:
                return None
            await connection.execute(update(api_keys).where(columns.id == row["id"]).values(revoked_at=now))
        return _read({**row, "revoked_at": now})


def _row(key: Key) -> dict[str, Any]:
    row = {column.name: getattr(key, column.name) for column in api_keys.columns if column.name != "seq"}
    return row | {name: None if row[name] is None else json.dumps(row[name]) for name in LISTS}


def _read(row: Mapping[str, Any]) -> Key:
    values = {name: value for name, value in row.items() if name != "seq"}
    lists = {name: None if row[name] is None else tuple(json.loads(row[name])) for name in LISTS}
    return Key(**values | lists)
