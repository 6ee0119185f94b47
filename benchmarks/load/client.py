"""The client: asks, and notes the pieces that come and when. It looks into nothing but what ends an answer.

It shares a core with the engine, so what it costs is paid by what is measured.
"""

import asyncio
import gc
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import uvloop

from benchmarks.load.answers import Recording, whole_size
from benchmarks.load.cells import Cell

PATIENCE = 60.0
"""Seconds that an answer may take."""
_LAST = b"\r\n0\r\n\r\n"


def ask_all(ports: Sequence[int], cell: Cell) -> list[Recording]:
    """All answers of a cell; clients take the ports in turn."""
    gc.collect()
    gc.disable()  # what is kept is bytes and numbers
    try:
        return uvloop.run(_all(ports, cell))
    finally:
        gc.enable()


async def _all(ports: Sequence[int], cell: Cell) -> list[Recording]:
    recordings: list[Recording] = []
    clients = (_client(ports[number % len(ports)], cell, number, recordings) for number in range(cell.clients))
    await asyncio.gather(*clients)
    return recordings


async def _client(port: int, cell: Cell, number: int, recordings: list[Recording]) -> None:
    """One that asks for its answers one after the other, on one connection if the other side keeps it."""
    request = cell.request(port)
    connection = await _connect(port)
    await asyncio.sleep(cell.ramp * number / cell.clients)
    for _ in range(cell.answers):
        if connection is None or not connection.open:
            connection = await _connect(port)
        recordings.append(await connection.ask(request) if connection else Recording(_clock()))
    if connection is not None:
        connection.close()


async def _connect(port: int) -> "Connection | None":
    with suppress(OSError):
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
        return connection
    return None


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self.open = True
        self._transport: asyncio.Transport | None = None
        self._recording = Recording(0)
        self._over: asyncio.Future[None] | None = None
        self._size = 0
        self._whole: float | None = 0.0  # bytes of the whole answer; 0: not known yet, None: chunked

    async def ask(self, request: bytes) -> Recording:
        """Asks; what came until the end, or until patience ended."""
        assert self._transport is not None
        self._recording = recording = Recording(_clock())
        self._over = asyncio.get_running_loop().create_future()
        self._size, self._whole = 0, 0.0
        self._transport.write(request)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._over
        except TimeoutError:
            self.close()
        finally:
            self._over = None
        return recording

    def close(self) -> None:
        """Closes at once."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, as all below."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side closed, in order or not."""
        del exc
        self.open = False
        self._finish()

    def data_received(self, data: bytes) -> None:
        """A piece of the answer."""
        recording = self._recording
        recording.times.append(_clock())
        recording.pieces.append(data)
        self._size += len(data)
        if self._whole == 0:
            self._read_head()
        if self._ended(data) if self._whole is None else 0 < self._whole <= self._size:
            self._finish()

    def _read_head(self) -> None:
        head, blank, _ = b"".join(self._recording.pieces).partition(b"\r\n\r\n")
        if blank:
            self._whole = whole_size(head + blank)

    def _ended(self, data: bytes) -> bool:
        """Whether the last chunk was there; its bytes may have come in several pieces."""
        if len(data) < len(_LAST):
            data = b"".join(self._recording.pieces[-len(_LAST) :])
        return data.endswith(_LAST)

    def _finish(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


def _clock() -> int:
    return time.monotonic_ns() // 1000
