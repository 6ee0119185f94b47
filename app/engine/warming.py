"""`tokenlane engine warmup`: one engine warmed from outside, and what each size of burst came to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from app.bench.target import Target
from gateway.errors import EngineError
from gateway.telemetry import WarmUpOutcome
from gateway.upstream.client import EngineClient
from gateway.warmup import Course, Extent, sizes
from gateway.warmup.asking import Asker
from gateway.warmup.course import Row
from gateway.warmup.facts import served
from gateway.warmup.run import Report, run


@dataclass(slots=True)
class Warming:
    """One warm-up from outside.

    Args:
        where: the engine, or a gateway in front of it.
        extent: how much is warmed.
        budget: seconds for all of it.
        model: name of the model; None: the first one that is served.
        say: takes a line about each burst.
    """

    where: Target
    extent: Extent
    budget: float
    model: str | None
    say: Callable[[str], None]
    course: Course | None = None
    report: Report | None = None

    async def run(self) -> Report:
        """Warms it. Afterwards, and when it is interrupted, `course` knows what was seen."""
        client = EngineClient(pool_size=self.extent.concurrency)
        try:
            self.report = await self._run(client)
        finally:
            await client.aclose()
        return self.report

    async def _run(self, client: EngineClient) -> Report:
        url, headers = self.where.url, self.where.headers
        try:
            says = await served(client, url, headers, self.model)
        except EngineError as error:
            return Report(WarmUpOutcome.FAILED, 0.0, str(error))
        course = self.course = Course(sizes(self.extent, says.max_model_len))
        self.model = says.model
        answer = self.extent.answer_tokens
        asker = Asker(client, url, headers=headers, model=says.model, answer_tokens=answer)

        def told(row: Row) -> None:
            ttft = row.ttfts[-1] * 1000
            self.say(
                f"{course.done}/{course.total}: {row.size.concurrency} at once, {row.size.prompt_tokens} tokens: "
                f"TTFT p95 {ttft:.1f} ms"
            )

        return await run(course, asker.burst, budget=self.budget, told=told)

    def json(self) -> bytes:
        """All of it, for a file."""
        report, rows = self.report, self.course.rows if self.course else []
        told: dict[str, Any] = {
            "url": self.where.url,
            "model": self.model,
            "outcome": str(report.outcome) if report else "interrupted",
            "reason": report.reason if report else "",
            "seconds": round(report.seconds, 3) if report else None,
            "sizes": [_as_dict(row) for row in rows],
        }
        return orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n"


def _as_dict(row: Row) -> dict[str, Any]:
    return {
        "concurrency": row.size.concurrency,
        "prompt_tokens": row.size.prompt_tokens,
        "ttft_p95_ms": [round(ttft * 1000, 2) for ttft in row.ttfts],
        "refused": row.refused,
    }


def table(course: Course) -> str:
    """A Markdown table: for each size what the first and the last burst waited."""
    lines = [
        "| at once | prompt tokens | bursts | TTFT p95 first ms | last ms |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in course.rows:
        first, last = (f"{row.ttfts[0] * 1000:.1f}", f"{row.ttfts[-1] * 1000:.1f}") if row.ttfts else ("-", "-")
        bursts = "refused" if row.refused else len(row.ttfts)
        lines.append(f"| {row.size.concurrency} | {row.size.prompt_tokens} | {bursts} | {first} | {last} |")
    return "\n".join(lines) + "\n"
