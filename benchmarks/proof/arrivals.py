"""When the events of streams arrive, and how many come in one read, as a socket sees it."""

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from app.bench.quantiles import median, quantile

READ = 2**16
PATIENCE = 120
"""Seconds that a stream may take in all."""


class WrongAnswer(Exception):
    """A stream did not end as it has to."""


@dataclass(slots=True)
class Arrivals:
    """What came of some streams. Seconds.

    Args:
        first: from asking to the first read that had an event with text.
        gaps: between reads that had events, within a stream.
        spans: from the first of those to the last.
        reads, events: how many.
    """

    first: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    spans: list[float] = field(default_factory=list)
    reads: int = 0
    events: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The figures, in milliseconds."""
        gaps = sorted(self.gaps)
        return {
            "ttft_p50_ms": median(self.first) * 1000,
            "gap_p50_ms": quantile(gaps, 0.5) * 1000 if gaps else 0.0,
            "gap_p99_ms": quantile(gaps, 0.99) * 1000 if gaps else 0.0,
            "events_a_read": self.events / self.reads,
            "last_minus_first_ms": median(self.spans) * 1000,
        }


async def arrivals(url: str, body: dict[str, Any], streams: int, rounds: int) -> Arrivals:
    """Some streams at once, some times; raises WrongAnswer, OSError or TimeoutError."""
    found = Arrivals()
    for _ in range(rounds):
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for _ in range(streams):
                group.create_task(_stream(url, json.dumps(body).encode(), found))
    return found


async def _stream(url: str, body: bytes, found: Arrivals) -> None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    asked, times, end = time.perf_counter(), [], b""
    while data := await reader.read(READ):
        if events := data.count(b'"delta":{"content":"') + data.count(b'"delta": {"content": "'):
            times.append(time.perf_counter())
            found.events += events
            found.reads += 1
        end = (end + data)[-64:]
    writer.close()
    if b"[DONE]" not in end or not times:
        raise WrongAnswer(f"{url}: {end!r}")
    found.first.append(times[0] - asked)
    found.spans.append(times[-1] - times[0])
    found.gaps += [later - sooner for sooner, later in itertools.pairwise(times)]
