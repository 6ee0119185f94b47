"""Files and batches within the service: the database is opened when it is first needed.

That is at the first file or batch, or once there can be something to go on with: a file that exists, or a database
that is shared. Who makes no batch pays neither memory nor time: the database's libraries are not even imported.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from config.settings import Settings
from gateway.admission.choice import LaneNames
from gateway.batch.census import Figures
from gateway.batch.desk import Desk
from gateway.batch.store import StoreUnavailable
from gateway.gateway import Gateway
from gateway.keys import Keyring
from gateway.models import ModelCatalogue
from gateway.pacing.pacer import Pacer

if TYPE_CHECKING:
    from types import ModuleType

    from app.batch_parts import BatchParts

log = structlog.get_logger("tokenlane.batch")

LOOK_S = 5.0
"""Seconds between two looks for a database that is not open yet."""


@dataclass(frozen=True, slots=True)
class BatchSurroundings:
    """What files and batches need of the rest of the service.

    `gateway` runs the lines, `models` knows what is served, `keys` whose a batch is, `pacer` how many lines the
    interactive lane bears: how many requests of the batch lane in all, where it `paces_lane`.
    """

    settings: Settings
    gateway: Gateway
    lanes: LaneNames
    models: ModelCatalogue
    pacer: Pacer
    paces_lane: bool
    keys: Keyring


class BatchService:
    """What the service holds of files and batches."""

    def __init__(self, around: BatchSurroundings) -> None:
        self._around = around
        self._settings = around.settings.batch
        self._opening = asyncio.Lock()
        self._parts: BatchParts | None = None
        self._closing = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Goes on with what there is, as soon as it is there. Without the database all else works."""
        self._looking = asyncio.create_task(self._look())

    async def desk(self) -> Desk:
        """What endpoints ask; opens the database the first time. Raises StoreUnavailable."""
        async with self._opening:
            if self._parts is None:
                self._parts = await self._opened()
            return self._parts.desk

    @property
    def figures(self) -> Figures | None:
        """What there is to show, None while nothing is open."""
        return self._parts.runner.figures if self._parts is not None else None

    def drain(self) -> None:
        """Begins no line any more."""
        if self._parts is not None:
            self._parts.runner.drain()

    async def aclose(self) -> None:
        """Cuts the lines that run and gives them back; closes the database."""
        self._closing.set()
        if self._looking is not None:
            await asyncio.wait((self._looking,))
        if self._parts is not None:
            await self._parts.aclose()

    async def _opened(self) -> "BatchParts":
        parts = await asyncio.to_thread(_heavy)
        try:
            await asyncio.to_thread(self._settings.data_dir.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(type(error).__name__) from error
        opened: BatchParts = await parts.opened(self._around)
        return opened

    async def _look(self) -> None:
        """Opens the database once it can hold work, and tries again while it cannot be opened."""
        while self._parts is None and not self._closing.is_set():
            if await asyncio.to_thread(self._may_hold_work):
                try:
                    await self.desk()
                except StoreUnavailable as error:
                    log.error("the database of batches cannot be opened", error=str(error))  # noqa: TRY400
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._closing.wait()

    def _may_hold_work(self) -> bool:
        """A shared database may; a file once it is there, from an earlier process or another one beside this."""
        return (
            not self._settings.url.startswith("sqlite") or Path(self._settings.url.removeprefix("sqlite:///")).exists()
        )


def _heavy() -> "ModuleType":
    from app import batch_parts  # noqa: PLC0415 - a second and 50 MB that only batches need

    return batch_parts
