"""What befalls the engines: killed, told to end, paused; and a record of when, so that nobody else is blamed."""

import asyncio
import signal
import time
from collections import Counter
from random import Random

from benchmarks.chaos.processes import Program

BEFORE, AFTER = 0.1, 0.5
"""Seconds around a trouble that belong to it."""


class Troubles:
    """Makes trouble, one engine at a time or several at once.

    Attributes:
        counts: troubles by kind.
    """

    def __init__(self, engines: list[Program], random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._engines = engines
        self._random = random
        self._spans: dict[str, list[list[float]]] = {engine.name: [] for engine in engines}
        self._forever = float("inf")

    def befell(self, names: list[str], since: float, until: float) -> bool:
        """Whether one of these engines was in trouble at a time between two, on `time.monotonic`'s scale."""
        spans = (span for name in names for span in reversed(self._spans[name]))
        return any(start <= until and end >= since for start, end in spans)

    async def run(self) -> None:
        """Goes on until it is cancelled; then every engine is up again."""
        async with asyncio.TaskGroup() as group:
            for engine in self._engines:
                group.create_task(self._haunt(engine))

    async def _haunt(self, engine: Program) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(2, 18))
            kind = self._random.choice([self._kill, self._kill, self._terminate, self._pause, self._pause_and_kill])
            self.counts[kind.__name__.strip("_")] += 1
            span = [time.monotonic() - BEFORE, self._forever]
            self._spans[engine.name].append(span)
            try:
                await kind(engine)
            finally:
                await asyncio.shield(self._restore(engine))
                span[1] = time.monotonic() + AFTER

    async def _kill(self, engine: Program) -> None:
        engine.tell(signal.SIGKILL)
        await asyncio.sleep(self._random.uniform(0, 3))

    async def _terminate(self, engine: Program) -> None:
        engine.tell(signal.SIGTERM)
        await asyncio.sleep(self._random.uniform(0, 3))

    async def _pause(self, engine: Program) -> None:
        engine.tell(signal.SIGSTOP)
        await asyncio.sleep(self._random.choice([self._random.uniform(0, 1), self._random.uniform(1, 7)]))

    async def _pause_and_kill(self, engine: Program) -> None:
        await self._pause(engine)
        engine.tell(signal.SIGKILL)
        await asyncio.sleep(self._random.uniform(0, 2))

    async def _restore(self, engine: Program) -> None:
        engine.tell(signal.SIGCONT)
        if (await engine.get("/health"))[0] != 200:
            await engine.ended(3)
            await engine.restart()
