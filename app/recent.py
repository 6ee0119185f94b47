"""The last minutes, for people who watch: TTFT, ITL, tokens and flushes of each lane, in slots of ten seconds.

An observer beside the metrics. Prometheus keeps counters for ever and leaves the looking to others; the status view
needs percentiles of just now, without a Prometheus. Memory is bounded: a ring of slots a lane, a slot keeps its latest
TTFT values and the counts of everything else. A stream is counted when it has ended, in the slot of its end.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add

from gateway.telemetry import ITL_BUCKETS, FlushReason, Outcome, RequestEnded, StreamStats, TelemetryEvent

SLOT_S = 10.0
"""Seconds a slot."""

SLOTS = 30
"""Slots that are kept: five minutes."""

MINUTE = 7
"""Slots that make up the last minute: the running one and the six before it."""

TTFT_VALUES = 512
"""TTFT values a slot keeps; the latest ones win."""

FAILURES = frozenset({Outcome.ENGINE_ERROR, Outcome.INTERNAL})


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds at the 50th, 95th and 99th percentile."""

    p50: float
    p95: float
    p99: float


@dataclass(slots=True)
class Slot:
    """What ended within one slot, or in several that were added up.

    `itl` holds counts by bucket of `ITL_BUCKETS`, the last one for what is above. `tokens` are those that were
    streamed, `flushed` those of them that the buffer counted, for the mean size of a flush.
    """

    index: int
    requests: int = 0
    refused: int = 0
    failed: int = 0
    tokens: int = 0
    flushed: int = 0
    ttft: deque[float] = field(default_factory=lambda: deque(maxlen=TTFT_VALUES))
    itl: list[int] = field(default_factory=lambda: [0] * (len(ITL_BUCKETS) + 1))
    flushes: Counter[FlushReason] = field(default_factory=Counter)

    def record(self, event: RequestEnded) -> None:
        """Takes one request that ended."""
        self.requests += 1
        self.refused += event.outcome is Outcome.REFUSED
        self.failed += event.outcome in FAILURES
        if event.ttft is not None:
            self.ttft.append(event.ttft)
        if event.stats is not None:
            self._record_stream(event.stats)

    def _record_stream(self, stats: StreamStats) -> None:
        self.tokens += stats.tokens
        self.flushed += stats.flush_tokens_sum
        for reason, count in stats.flushes.items():
            self.flushes[reason] += count
        self.itl = list(map(add, self.itl, stats.itl))

    def __add__(self, other: "Slot") -> "Slot":
        return Slot(
            max(self.index, other.index),
            self.requests + other.requests,
            self.refused + other.refused,
            self.failed + other.failed,
            self.tokens + other.tokens,
            self.flushed + other.flushed,
            deque([*self.ttft, *other.ttft]),
            [mine + others for mine, others in zip(self.itl, other.itl, strict=True)],
            self.flushes + other.flushes,
        )

    @property
    def tokens_a_flush(self) -> float | None:
        """Mean size of a flush in tokens, None without one."""
        return self.flushed / total if (total := self.flushes.total()) else None


class Recent:
    """The observer, and what it remembers.

    Args:
        lanes: the names that are kept; events of others are ignored.
        clock: monotonic seconds.
    """

    def __init__(self, lanes: Iterable[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rings: Mapping[str, deque[Slot]] = {lane: deque(maxlen=SLOTS) for lane in lanes}

    def __call__(self, event: TelemetryEvent) -> None:
        """Takes one event; all but the end of a request are of no interest here."""
        if isinstance(event, RequestEnded) and (ring := self._rings.get(event.lane)) is not None:
            now = self._now()
            if not ring or ring[-1].index != now:
                ring.append(Slot(now))
            ring[-1].record(event)

    def minute(self, lane: str) -> Slot:
        """The last minute of a lane, added up. Raises KeyError for a lane that is not kept."""
        now = self._now()
        return sum((slot for slot in self._rings[lane] if slot.index > now - MINUTE), Slot(now))

    def history(self, lane: str) -> list[Slot]:
        """`SLOTS` slots, the running one last, empty ones where nothing ended. Raises KeyError as `minute` does."""
        now = self._now()
        kept = {slot.index: slot for slot in self._rings[lane]}
        return [kept.get(index) or Slot(index) for index in range(now - SLOTS + 1, now + 1)]

    def _now(self) -> int:
        return int(self._clock() // SLOT_S)


def of_values(values: Iterable[float]) -> Percentiles | None:
    """Percentiles by nearest rank; None where there is no value."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p95, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.50, 0.95, 0.99))
    return Percentiles(p50, p95, p99)


def of_buckets(counts: Sequence[int], bounds: Sequence[float] = ITL_BUCKETS) -> Percentiles | None:
    """Percentiles of a histogram, linear within a bucket; what is above all bounds counts as the highest bound.

    Args:
        counts: by bucket, not cumulative, one more than `bounds`.
        bounds: upper bounds, rising.
    """
    if not sum(counts):
        return None
    p50, p95, p99 = (_quantile(share, counts, bounds) for share in (0.50, 0.95, 0.99))
    return Percentiles(p50, p95, p99)


def _quantile(share: float, counts: Sequence[int], bounds: Sequence[float]) -> float:
    rank = share * sum(counts)
    below, lower = 0, 0.0
    for count, upper in zip(counts, bounds, strict=False):
        if below + count >= rank and count:
            return lower + (upper - lower) * (rank - below) / count
        below, lower = below + count, upper
    return bounds[-1]
