"""A socket of the client: one request at a time, its answer stamped as the bytes come in."""

import asyncio
import time
from dataclasses import dataclass
from typing import cast

from app.bench.reading import Reading


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that are waited: for a connection, for the first text, for another one."""

    connect: float = 10
    first: float = 300
    gap: float = 60


class Connection(asyncio.Protocol):
    """A connection, usable while `open` says so."""

    def __init__(self, patience: Patience) -> None:
        self.open = True
        self._patience = patience
        self._transport: asyncio.Transport | None = None
        self._reading: Reading | None = None
        self._over: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self, request: bytes, reading: Reading) -> None:
        """Sends a request and returns when its reading is over; closed if it cannot carry another.

        Cancelled, it closes at once: the server sees that its client has left.
        """
        assert self._transport is not None  # noqa: S101 - connections are handed out connected
        self._reading = reading
        self._over = asyncio.get_running_loop().create_future()
        try:
            if self.open:
                self._transport.write(request)
                self._watch()
            else:  # closed since it was handed out
                reading.closed()
                self._finish()
            await self._over
        finally:
            self._reading = self._over = None
            if self._timer is not None:
                self._timer.cancel()
            if not reading.reusable:
                self.close()
            reading.release()

    def close(self) -> None:
        """Closes without waiting. Idempotent."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def _watch(self) -> None:
        """One timer a stream that is set anew only when it fires: nothing is paid an event."""
        if self._reading is None:
            return
        left = self._reading.due(self._patience.first, self._patience.gap) - time.perf_counter()
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._watch)
            return
        self._reading.give_up()
        self._finish()

    def _finish(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, as all below."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer; those that nobody asked for close the connection."""
        now = time.perf_counter()
        if self._reading is None:
            self.close()
            return
        self._reading.received(data, now)
        if self._reading.over:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer closed, in order or not."""
        del exc
        self.open = False
        if self._reading is not None:
            self._reading.closed()
            self._finish()
