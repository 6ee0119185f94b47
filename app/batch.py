"""Files and batches within the service: the database is opened when it is first needed.

That is at the first file or batch, or at start where there can be something to go on with: a database that exists, or
one that is shared. Who makes no batch pays neither memory nor time: the database's libraries are not even imported.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from config.settings import Settings
from gateway.admission.choice import LaneNames
from gateway.batch.desk import Desk
from gateway.batch.signs import SignWatch
from gateway.batch.store import StoreUnavailable
from gateway.gateway import Gateway
from gateway.models import ModelCatalogue

if TYPE_CHECKING:
    from types import ModuleType

    from app.batch_parts import BatchParts

log = structlog.get_logger("tokenlane.batch")

RETRY_S = 5.0
"""Seconds between two tries to reach a shared database at start."""


class BatchService:
    """What the service holds of files and batches.

    Args:
        settings: the whole tree.
        gateway: runs the lines.
        lanes: the lanes there are.
        models: what is served.
        signs: how the interactive lane does.
    """

    def __init__(
        self, settings: Settings, gateway: Gateway, lanes: LaneNames, models: ModelCatalogue, signs: SignWatch
    ) -> None:
        self._settings = settings
        self._around = (settings, gateway, lanes, models, signs)
        self._opening = asyncio.Lock()
        self._parts: BatchParts | None = None
        self._waiting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Goes on with what an earlier process left, if there can be something. Without the database all else works."""
        if not self._url.startswith("sqlite"):
            self._waiting = asyncio.create_task(self._wait_for_it())
        elif await asyncio.to_thread(Path(self._url.removeprefix("sqlite:///")).exists):
            await self._tried()

    async def desk(self) -> Desk:
        """What endpoints ask; opens the database the first time. Raises StoreUnavailable."""
        async with self._opening:
            if self._parts is None:
                self._parts = await self._opened()
            return self._parts.desk

    def drain(self) -> None:
        """Begins no line any more."""
        if self._parts is not None:
            self._parts.runner.drain()

    async def aclose(self) -> None:
        """Cuts the lines that run and gives them back; closes the database."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait((self._waiting,))
        if self._parts is not None:
            await self._parts.aclose()

    @property
    def _url(self) -> str:
        configured = self._settings.batch.database_url
        if configured is not None:
            return configured.get_secret_value()
        return f"sqlite:///{self._settings.batch.data_dir.absolute() / 'batch.sqlite3'}"

    async def _opened(self) -> "BatchParts":
        parts = await asyncio.to_thread(_heavy)
        await asyncio.to_thread(self._settings.batch.data_dir.mkdir, parents=True, exist_ok=True)
        opened: BatchParts = await parts.opened(parts.Surroundings(*self._around), self._url)
        return opened

    async def _tried(self) -> bool:
        try:
            await self.desk()
        except StoreUnavailable as error:
            log.error("the database of batches cannot be opened", error=str(error))  # noqa: TRY400 - no traceback
            return False
        return True

    async def _wait_for_it(self) -> None:
        while not await self._tried():  # noqa: ASYNC110 - nothing tells that a database is back
            await asyncio.sleep(RETRY_S)


def _heavy() -> "ModuleType":
    from app import batch_parts  # noqa: PLC0415 - two seconds and 30 MB that only batches need

    return batch_parts
