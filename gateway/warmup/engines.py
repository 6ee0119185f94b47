"""The warm-up of the gateway's engines: who needs one, how far it is, who is told.

- An engine is warmed before it gets traffic: after its start, and after an outage in which its process was another one
  before. Whether it was is told by the start of the process in the engine's own metrics; where they do not say, it is
  warmed again, which is short with one that is warm.
- An address is warmed once at a time, and once for all lanes that share it.
- The requests take the engine's own connections, which no client can hold while it is out of service; what still runs
  from before an outage keeps its own.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.errors import EngineError
from gateway.routing.pool import Engine
from gateway.telemetry import Observer, WarmUpBurst, WarmUpEnded, WarmUpOutcome
from gateway.upstream.client import EngineClient
from gateway.warmup.asking import Asker
from gateway.warmup.course import Course, Row
from gateway.warmup.facts import served, started
from gateway.warmup.plan import Extent, sizes
from gateway.warmup.run import Report, run


@dataclass(frozen=True, slots=True)
class _Warmed:
    """What was warmed at an address: the start of its process, and the largest burst."""

    started: bytes | None
    concurrency: int


class WarmUps:
    """Warms engines; one object for all of them.

    Args:
        client: asks the engines.
        concurrency: the largest burst, by the address of each engine that is to be warmed; others need nothing.
        extent: how much is warmed; its concurrency bounds those above.
        budget: seconds for one engine.
        observer: hears of bursts and ends.
    """

    def __init__(
        self,
        client: EngineClient,
        concurrency: Mapping[str, int],
        *,
        extent: Extent,
        budget: float,
        observer: Observer,
    ) -> None:
        self._client = client
        self._concurrency = concurrency
        self._extent = extent
        self._budget = budget
        self._observer = observer
        self._warmed: dict[str, _Warmed] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __call__(self, engine: Engine) -> bool:
        """Warms an engine if it needs it. Returns whether it may get traffic."""
        wanted = self._concurrency.get(engine.url)
        if wanted is None:
            return True
        async with self._turns[engine.url]:
            engine.warming = "waits for its first burst"
            try:
                return await self._warm(engine, min(wanted, self._extent.concurrency))
            finally:
                engine.warming = ""

    async def _warm(self, engine: Engine, concurrency: int) -> bool:
        headers = _headers(engine)
        process = await started(self._client, engine.url, headers)
        known = self._warmed.get(engine.url)
        if known and process is not None and known.started == process and known.concurrency >= concurrency:
            return True
        free = max(1, min(concurrency, engine.pool_size - engine.in_flight))
        course, report = await self._run(engine, replace(self._extent, concurrency=free), headers)
        self._tell(engine, course, report)
        if report.outcome is WarmUpOutcome.FAILED:
            return False
        self._warmed[engine.url] = _Warmed(process, free)
        return True

    async def _run(self, engine: Engine, extent: Extent, headers: list[tuple[str, str]]) -> tuple[Course, Report]:
        try:
            says = await served(self._client, engine.url, headers, None)
        except EngineError as error:
            return Course([]), Report(WarmUpOutcome.FAILED, 0.0, str(error))
        course = Course(sizes(extent, says.max_model_len))
        asker = Asker(self._client, engine.url, headers=headers, model=says.model, answer_tokens=extent.answer_tokens)

        def told(row: Row) -> None:
            engine.warming = f"{course.done} of {course.total} bursts"
            size = row.size
            self._observer(
                WarmUpBurst(engine.name, course.done, course.total, size.concurrency, size.prompt_tokens, row.ttfts[-1])
            )

        return course, await run(course, asker.burst, budget=self._budget, told=told)

    def _tell(self, engine: Engine, course: Course, report: Report) -> None:
        slowest = course.slowest()
        first, steady = (slowest.ttfts[0], slowest.ttfts[-1]) if slowest else (None, None)
        self._observer(
            WarmUpEnded(engine.name, report.outcome, report.seconds, course.done, first, steady, report.reason)
        )


def _headers(engine: Engine) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {engine.api_key}")] if engine.api_key else []
