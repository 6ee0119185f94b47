"""Asks a target and tells what came of it. Connections are kept alive and used again, the latest first."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from app.bench.connection import Connection, Patience
from app.bench.outcome import CONNECT, Outcome
from app.bench.reading import Reading
from app.bench.target import Target

REFUSALS = frozenset({429, 503})
"""Statuses after which another try makes sense."""
MOST_WAIT = 60.0
"""Seconds that a `Retry-After` is followed at most."""
UNNAMED_WAIT = 1.0
"""Seconds that are waited where a refusal names no time."""


class Client:
    """A client of one target; use it with `async with`.

    Args:
        target: who is asked.
        patience: how long is waited.
        retries: how often a request that was refused with 429 or 503 is sent again, after the time that was asked for.
        pause: what waits; `asyncio.sleep`, or a test's own.
    """

    def __init__(
        self,
        target: Target,
        patience: Patience = Patience(),  # noqa: B008 - a frozen value
        *,
        retries: int = 0,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.target = target
        self._patience = patience
        self._retries = retries
        self._pause = pause
        self._tls = target.tls()
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop

    def close(self) -> None:
        """Closes what is idle."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def ask(self, path: str, body: bytes, *, prompt: int = 0, late: float = 0) -> Outcome:
        """Sends a request below `/v1`; errors are outcomes. `prompt` and `late` go into the outcome as they are."""
        request = self.target.request("POST", f"/v1{path}", body)
        outcome = Outcome(CONNECT, prompt, began=time.perf_counter(), late=late)
        while True:
            try:
                reading = await self._read(request)
            except OSError as error:
                return replace(outcome, ended=time.perf_counter(), detail=_said(error))
            if reading.status not in REFUSALS or outcome.tries > self._retries:
                return _read_out(outcome, reading)
            pause = reading.retry_after()
            pause = UNNAMED_WAIT if pause is None else min(pause, MOST_WAIT)
            await self._pause(pause)
            outcome = replace(outcome, tries=outcome.tries + 1, waited=outcome.waited + pause)

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status (0: none came) and the start of the body of a page below the root.

        Raises:
            OSError: no connection.
        """
        reading = await self._read(self.target.request("GET", path))
        return reading.status, reading.content

    async def _read(self, request: bytes) -> Reading:
        """The reading of a request, over; connecting takes of its time. A stale connection is not held against it.

        Raises:
            OSError: no connection.
        """
        reading = Reading(time.perf_counter())
        while (connection := self._kept()) is not None:
            await self._on(connection, request, reading)
            if not reading.stale:
                return reading
            reading = Reading(reading.sent)
        connection = await self._connect()
        await self._on(connection, request, reading)
        return reading

    async def _on(self, connection: Connection, request: bytes, reading: Reading) -> None:
        await connection.ask(request, reading)
        if connection.open:
            self._idle.append(connection)

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._patience.connect):
            _, connection = await loop.create_connection(
                lambda: Connection(self._patience), self.target.host, self.target.port, ssl=self._tls
            )
        return connection


def _read_out(outcome: Outcome, reading: Reading) -> Outcome:
    """The outcome with what its last answer said."""
    return replace(
        outcome,
        kind=reading.kind(),
        ended=time.perf_counter(),
        ttft=None if reading.first is None else reading.first - reading.sent,
        gaps=tuple(reading.gaps),
        span=0 if reading.first is None else reading.last - reading.first,
        tokens=reading.tokens,
        by_usage=reading.by_usage,
        prompt_tokens=reading.prompt_tokens,
        events=reading.events,
        retry_after=reading.retry_after() if reading.status in REFUSALS else None,
        detail=reading.detail,
    )


def _said(error: OSError) -> str:
    return "no connection in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
