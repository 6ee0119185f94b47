"""Starts the pace of batch work: for the whole batch lane where it shares engines, for lines of batches elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from app.observers import Observers
from config.settings import Settings
from gateway.admission.choice import LaneNames
from gateway.admission.gate import Gate
from gateway.gateway import Gateway
from gateway.pacing.pace import Pacing
from gateway.pacing.pacer import LOOK_S, Pacer, keep
from gateway.pacing.signs import SignWatch
from gateway.telemetry import RequestEnded

log = structlog.get_logger("tokenlane")


@asynccontextmanager
async def pacing(
    settings: Settings, gateway: Gateway, lanes: LaneNames, observers: Observers
) -> AsyncIterator[tuple[Pacer, bool]]:
    """A pacer that sees the interactive lane, and whether it paces the whole batch lane, while the block lasts."""
    clock = asyncio.get_running_loop().time
    paces_lane = settings.topology == "single" and settings.single.pace
    slots = settings.slots_of(lanes.batch)
    ceiling = slots if paces_lane else settings.batch.concurrency or slots
    signs = SignWatch(gateway, lanes.interactive, None if paces_lane else lanes.batch, clock)
    observers.add(signs, RequestEnded)
    pacer = Pacer(Pacing(ceiling), signs.look, clock)
    if not paces_lane:
        yield pacer, False
        return
    keeping = asyncio.create_task(_kept(gateway.lanes[lanes.batch].gate, lanes.batch, pacer))
    try:
        yield pacer, True
    finally:
        keeping.cancel()
        await asyncio.wait((keeping,))


async def _kept(gate: Gate, lane: str, pacer: Pacer) -> None:
    """Keeps the pace; a fault of this program is told and survived."""
    while True:
        try:
            await keep(gate, lane, pacer)
        except Exception:
            log.exception("a fault of this program in the pace of batch work")
            await asyncio.sleep(LOOK_S)
