"""The database: how it is opened, brought to this version's schema, read and written."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.batch.store import StoreFull, StoreUnavailable

MIGRATIONS = Path(__file__).parents[1] / "migrations"
BUSY_S = 15.0
"""Seconds that a writer waits for another process's turn (SQLite)."""

LOCKED_S = 0.05
"""Seconds between two tries at what SQLite does not wait for by itself."""

CONNECT_S = 5.0
"""Seconds to connect (PostgreSQL)."""

MIGRATION_LOCK = 0x746F6B65
"""Key of PostgreSQL's advisory lock that one gateway at a time migrates under; any number, but always the same."""

POSTGRES_FULL = "53100"
"""PostgreSQL's SQLSTATE disk_full."""

DRIVERS = {"postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
"""Schemes as people write them -> with the driver that is used."""


class Database:
    """An open database.

    Args:
        url: `sqlite:///file` or `postgresql://user:password@host/name`.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        parsed = parsed.set(drivername=DRIVERS.get(parsed.drivername, parsed.drivername))
        self._sqlite = parsed.get_backend_name() == "sqlite"
        self._writers = asyncio.Lock()
        self._engine = _sqlite_engine(parsed) if self._sqlite else _postgres_engine(parsed)
        self._autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    async def migrate(self) -> None:
        """Brings the schema to this version; several gateways may do so at once. Raises StoreUnavailable."""
        if self._sqlite:
            await self._write_ahead()
        async with self.writing() as connection:
            if not self._sqlite:
                await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
            await connection.run_sync(_upgrade)

    async def _write_ahead(self) -> None:
        """Sets the file's journal mode, once and for all; SQLite does not wait here for others who do the same."""
        for _ in range(int(BUSY_S / LOCKED_S)):
            try:
                async with self.reading() as connection:
                    await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            except StoreUnavailable as error:
                if "locked" not in str(error.__cause__):
                    raise
                await asyncio.sleep(LOCKED_S)
            else:
                return
        raise StoreUnavailable("locked")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which each statement stands alone."""
        with _translated():
            async with self._autocommit.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction. SQLite has one writer at a time; those of this process wait here, not in the database."""
        with _translated():
            if not self._sqlite:
                async with self._engine.begin() as connection:
                    yield connection
                return
            async with self._writers, self._engine.begin() as connection:
                yield connection

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._engine.dispose()


class _translated:  # noqa: N801 - used as a statement
    """Turns the errors of SQLAlchemy, of the sockets below it and of a schema that is newer into StoreUnavailable."""

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, SQLAlchemyError | OSError | CommandError):
            kind = StoreFull if isinstance(error, DBAPIError) and _is_full(error.orig) else StoreUnavailable
            raise kind(type(error).__name__) from error


def _is_full(driver: BaseException | None) -> bool:
    """Whether a driver's error says that the disk is full."""
    if getattr(driver, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return True
    return getattr(driver, "sqlstate", None) == POSTGRES_FULL


def _postgres_engine(url: Any) -> AsyncEngine:
    return create_async_engine(url, pool_pre_ping=True, connect_args={"timeout": CONNECT_S})


def _sqlite_engine(url: Any) -> AsyncEngine:
    engine = create_async_engine(url, connect_args={"timeout": BUSY_S}, pool_size=4, max_overflow=0)

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions begin where `begun` says, not where the driver guesses
        cursor = connection.cursor()
        for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # a later upgrade from reader to writer can fail at once

    return engine


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
