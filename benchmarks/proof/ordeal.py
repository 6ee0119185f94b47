"""A batch whose gateways are stopped and killed, and what is to be said of it at the end."""

import asyncio
import json
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from benchmarks.proof.book import say
from benchmarks.proof.engine import Running
from benchmarks.proof.gateway import Gateway
from benchmarks.proof.offline import Desk, judge
from benchmarks.proof.process import metric, text_of
from benchmarks.proof.watch import Watch
from gateway.batch.jobs import LineState
from gateway.batch.sql import Database
from gateway.batch.sql.tables import lines

TO_END = 30
"""Seconds that a gateway may take to end, whatever the signal."""

GENERATED = "vllm:request_generation_tokens_bucket"


@dataclass(slots=True)
class Ordeal:
    """One batch.

    Args:
        watch: of it.
        count: its lines.
        database: URL.
        patience: seconds in which anything has to happen that is waited for.

    Attributes:
        recorded: custom_id -> id of each result that was in the database when a gateway had just ended.
        may_run_again: lines that ran when gateways were killed, at most.
        seconds: what took how long.
    """

    watch: Watch
    count: int
    database: str
    patience: float
    recorded: dict[str, str] = field(default_factory=dict)
    may_run_again: float = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def until_done(self, share: float, start: int = 0) -> None:
        """Waits until a share of the lines beyond the first `start` is done; raises Unmet."""
        goal = start + share * (self.count - start)
        self.watch.until(lambda: self.watch.done >= goal, self.patience, f"at {goal:.0f} lines")

    def until_over(self) -> None:
        """Waits until the batch has ended; raises Unmet."""
        self.watch.until(lambda: False, self.patience, "over")

    def stop(self, gateway: Gateway) -> None:
        """Ends a gateway by SIGTERM, and notes what is recorded; raises ProcessFailed."""
        self.seconds["SIGTERM to its end"] = gateway.process.end(signal.SIGTERM, TO_END)
        self._note_recorded()

    def kill(self, gateway: Gateway) -> None:
        """Ends a gateway by SIGKILL, and notes what is recorded, and how many lines may run again; the same."""
        self.may_run_again += metric(gateway.url, "tokenlane_batch_concurrency") or 0
        gateway.process.end(signal.SIGKILL, TO_END)
        self._note_recorded()

    def follow(self, gateway: Gateway, what: str) -> None:
        """Goes on with another gateway; notes how long it took from the last line seen to the next. Raises Unmet."""
        done, since = self.watch.done, self.watch.looks[-1].at
        self.watch.url = gateway.url
        self.watch.until(lambda: self.watch.done > done, self.patience, "going on")
        self.seconds[what] = time.monotonic() - since

    def told(self, finished: float | None) -> dict[str, Any]:
        """The entry of a book.

        Args:
            finished: lines that the engine has finished for this batch; None where it does not tell.
        """
        batch = self.watch.batch
        verdict = judge(batch, Desk(self.watch.url).results(batch), self.count, self.recorded)
        again = None if finished is None else finished - self.count
        wrong = verdict.problems
        if again is not None and not 0 <= again <= self.may_run_again:
            wrong.append(f"the engine finished {finished:.0f} lines")
        say(f"{batch['status']}: {verdict.results} results of {self.count} lines; {', '.join(wrong) or 'all is well'}")
        return {
            "lines": self.count,
            "results": verdict.results,
            "wrong": wrong,
            "recorded_before": len(self.recorded),
            "changed": len(verdict.changed),
            "ran_again": again,
            "may_run_again": self.may_run_again,
            "seconds": self.seconds,
        }

    def _note_recorded(self) -> None:
        found = asyncio.run(_recorded(self.database))
        changed = [name for name, result in self.recorded.items() if found.get(name) != result]
        if changed:
            say(f"{len(changed)} results are others than before")
        self.recorded = found | self.recorded  # what was there first is what has to stay


async def _recorded(url: str) -> dict[str, str]:
    """custom_id -> id of its result, of each line that has one in the database."""
    database = Database(url)
    try:
        async with database.reading() as connection:
            query = select(lines.c.custom_id, lines.c.output).where(lines.c.state != LineState.PENDING)
            return {name: str(json.loads(output)["id"]) for name, output in await connection.execute(query)}
    finally:
        await database.aclose()


def finished(engine: Running, tokens: int) -> float | None:
    """Requests that the engine has ended whose answers have about so many tokens; None where it does not tell.

    They are counted in a histogram's bucket, so that chats, which are longer, and probes of one token are left out.
    """
    counts: dict[float, float] = {}
    for line in text_of(f"{engine.url}/metrics").splitlines():
        if line.startswith(GENERATED):
            bound = float(line.split('le="')[1].split('"')[0])
            counts[bound] = counts.get(bound, 0) + float(line.rsplit(" ", 1)[1])
    if not counts:
        return None
    upper = min(bound for bound in counts if bound >= tokens)
    return counts[upper] - max((count for bound, count in counts.items() if bound < tokens), default=0)
