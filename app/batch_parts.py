"""Puts the parts of files and batches together. Importing this imports the database's libraries: see `app.batch`."""

import asyncio
import time
import uuid
from dataclasses import dataclass

import structlog

from app.batch import BatchSurroundings
from config.batch import window_seconds
from gateway.batch.assembly import Assembler
from gateway.batch.blobs import Blobs
from gateway.batch.desk import Desk, Terms
from gateway.batch.execution import Executor
from gateway.batch.jobs import ENDPOINTS as OFFERED
from gateway.batch.moves import Mover
from gateway.batch.pace import Common, Own
from gateway.batch.runner import Runner
from gateway.batch.sql import Database, SqlCatalogue, SqlLedger
from gateway.batch.store import StoreUnavailable, Worker
from gateway.batch.validation import Knows, Validator
from gateway.endpoints import ENDPOINTS
from gateway.errors import KeyRejected, KeysUnavailable, NoEngine
from gateway.keys import Key, Keyring

log = structlog.get_logger("tokenlane.batch")

AFTER_FAULT_S = 5.0
"""Seconds until the runner goes on after a fault of this program."""


@dataclass(frozen=True, slots=True)
class BatchParts:
    """Files and batches that are open."""

    database: Database
    desk: Desk
    runner: Runner
    running: asyncio.Task[None]

    async def aclose(self) -> None:
        """Cuts the lines that run and gives them back; closes the database."""
        self.runner.stop()
        await asyncio.wait((self.running,))
        await self.database.aclose()


async def opened(around: BatchSurroundings) -> BatchParts:
    """Opens the database and starts the runner. Raises StoreUnavailable."""
    database = Database(around.settings.batch.url)
    try:
        await database.migrate()
    except StoreUnavailable:
        await database.aclose()
        raise
    catalogue, ledger = SqlCatalogue(database), SqlLedger(database)
    blobs = Blobs(around.settings.batch.data_dir / "files")
    runner = _runner(around, catalogue, ledger, blobs)
    windows = {window: window_seconds(window) for window in around.settings.batch.completion_windows}
    terms = Terms([path for path in OFFERED if path in ENDPOINTS], windows, around.settings.batch.file_ttl_s)
    desk = Desk(catalogue, blobs, terms, time.time, runner.wake)
    return BatchParts(database, desk, runner, asyncio.create_task(_run(runner)))


def _runner(around: BatchSurroundings, catalogue: SqlCatalogue, ledger: SqlLedger, blobs: Blobs) -> Runner:
    settings = around.settings.batch
    validator = Validator(
        ledger,
        blobs,
        lambda: _known(around),
        settings.max_lines,
        settings.line_bytes,
        lambda owner: _bound_of(around.keys, owner),
    )
    assembler = Assembler(ledger, blobs, settings.file_ttl_s)
    return Runner(
        ledger=ledger,
        blobs=blobs,
        executor=Executor(around.gateway, around.lanes, settings.attempts, lambda owner: _key_of(around.keys, owner)),
        mover=Mover(
            *(ledger, catalogue, blobs, validator, assembler, time.time, log.info), observer=around.gateway.observer
        ),
        pace=_pace(around),
        worker=Worker(uuid.uuid4().hex, settings.lease_s),
        clock=time.time,
        report=log.warning,
        poll_s=settings.poll_s,
        observer=around.gateway.observer,
    )


def _pace(around: BatchSurroundings) -> Own:
    if not around.paces_lane:
        return Own(around.pacer)
    lane = around.lanes.batch
    most = around.settings.batch.concurrency or around.pacer.ceiling
    return Common(around.pacer, around.gateway.lanes[lane].gate, lane, most)


async def _run(runner: Runner) -> None:
    """Runs it until it is stopped; a fault of this program is told and survived."""
    while not runner.stopped:
        try:
            await runner.run()
        except* Exception:
            log.exception("a fault of this program in the runner of batches")
            await asyncio.sleep(AFTER_FAULT_S)


async def _known(around: BatchSurroundings) -> Knows | None:
    """The rule for names of models; None while an engine of the batch lane is out, which may serve others."""
    if not all(engine.healthy for engine in around.gateway.lanes[around.lanes.batch].pool.engines):
        return None
    try:
        served = {model["id"] for model in await around.models.listing()}
    except NoEngine:
        return None

    def knows(model: str) -> bool:
        bare, _, suffix = model.rpartition(":")
        return model in served or (suffix in around.lanes.names and bare in served)

    return knows


def _key_of(keys: Keyring, owner: str | None) -> Key | None:
    """The key of a batch. Raises KeyRejected where it is good no more, KeysUnavailable before any key was read."""
    if owner is None:
        return None
    if not keys.loaded:
        raise KeysUnavailable("The API keys cannot be checked now.", retry_after=AFTER_FAULT_S)
    key = keys.by_id(owner)
    if key is None or key.revoked_at is not None or key.expired(time.time()):
        raise KeyRejected("The API key that made this batch is not valid any more.")
    return key


def _bound_of(keys: Keyring, owner: str | None) -> int | None:
    """How many lines of batches a key may have waiting. Raises KeyRejected, StoreUnavailable."""
    try:
        key = _key_of(keys, owner)
    except KeysUnavailable as error:
        raise StoreUnavailable("the keys cannot be read") from error
    return key.batch_lines if key is not None else None
