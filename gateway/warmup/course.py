"""A warm-up as a state machine: which burst is next, and when an engine is warm. Pure: a TTFT is an argument, seconds.

    a burst ended well   the same size again, until its TTFT is steady or it was asked `REPEATS` times; then the next
    a burst failed       the same size again; the third failure in a row ends the warm-up: the engine is not well
    a burst was refused  the next size: the engine does not take this one, which is no reason to keep it from traffic
    no size is left      over

The TTFT of a burst is its 95th percentile. It is steady if it differs from that of the burst before by no more than a
quarter, or by a few milliseconds, in either direction: what is slower than before has met something new. Two bursts
that both met something new are alike, too; so the TTFT must also be plausible: not more than twice what the requests'
number makes of the TTFT of the size before.

Where a burst still takes seconds in the end, it is computing that takes them. Larger ones of the same length would take
longer than they save and are left out; those of the shortest length, which reach every size of a batch, never are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.warmup.plan import Size

REPEATS: Final = 8
TRIES: Final = 3
BETTER: Final = 0.25
"""The share by which two bursts may differ and still be the same."""
GRAIN: Final = 0.005
"""Seconds below which a difference says nothing."""
DEAR: Final = 2.0
"""How much more than in proportion to its requests a larger burst may cost and still be what it costs."""
LONG: Final = 2.0
"""Seconds: the last burst of a size that takes longer is the last one of its length."""


@dataclass(slots=True)
class Row:
    """What one size came to: the TTFT of each of its bursts, in seconds and in order; refused ones have none."""

    size: Size
    ttfts: list[float] = field(default_factory=list)
    refused: bool = False


def ttft_of(burst: Sequence[float]) -> float:
    """The TTFT of a burst: the 95th percentile, by nearest rank, of those of its requests. At least one is needed."""
    return sorted(burst)[math.ceil(0.95 * len(burst)) - 1]


def steady(ttfts: Sequence[float]) -> bool:
    """Whether the last two bursts of a size were the same."""
    if len(ttfts) < 2:
        return False
    low, high = sorted(ttfts[-2:])
    return high - low <= max(GRAIN, BETTER * high)


def plausible(ttft: float, size: Size, before: Row | None) -> bool:
    """Whether the TTFT of a size can be all that it costs, by what the smaller size before cost in the end."""
    if before is None or not before.ttfts or before.size.prompt_tokens != size.prompt_tokens:
        return True
    return ttft <= GRAIN + DEAR * before.ttfts[-1] * size.concurrency / before.size.concurrency


class Course:
    """One warm-up.

    Args:
        sizes: of the bursts, in their order.

    Attributes:
        rows: what has been met so far, in order.
        done: bursts that ended well.
    """

    def __init__(self, sizes: Sequence[Size]) -> None:
        self._left = list(reversed(sizes))
        self._shortest = min((size.prompt_tokens for size in sizes), default=0)
        self._failures = 0
        self.rows: list[Row] = []
        self.done = 0

    def __repr__(self) -> str:
        return f"<Course {self.done} of {self.total}: {self.next}>"

    @property
    def next(self) -> Size | None:
        """The size of the next burst; None: over."""
        return self._left[-1] if self._left else None

    @property
    def total(self) -> int:
        """Bursts at the least, those that were included: two of a size that has not begun, one more of one that has."""
        if not self._left:
            return self.done
        begun = self._begun()
        return self.done + 2 * len(self._left) - (1 if begun is not None and begun.ttfts else 0)

    def succeeded(self, burst: Sequence[float]) -> float:
        """The burst ended well; `burst` has the TTFT of each request. Returns that of the burst."""
        row = self._row()
        ttft = ttft_of(burst)
        row.ttfts.append(ttft)
        self.done += 1
        self._failures = 0
        before = self.rows[-2] if len(self.rows) > 1 else None
        known = steady(row.ttfts) and plausible(ttft, row.size, before)
        if known or len(row.ttfts) >= REPEATS:
            self._left.pop()
            length = row.size.prompt_tokens
            if ttft > LONG and length > self._shortest:
                self._left = [size for size in self._left if size.prompt_tokens != length]
        return ttft

    def refused(self) -> None:
        """The engine does not take bursts of this size."""
        self._row().refused = True
        self._failures = 0
        self._left.pop()

    def failed(self) -> bool:
        """The burst failed. Returns whether there is another try."""
        self._failures += 1
        return self._failures < TRIES

    def slowest(self) -> Row | None:
        """The size whose first burst waited longest: what warming was for. None if no burst ended well."""
        return max((row for row in self.rows if row.ttfts), key=lambda row: row.ttfts[0], default=None)

    def _begun(self) -> Row | None:
        return self.rows[-1] if self.rows and self.rows[-1].size == self.next else None

    def _row(self) -> Row:
        row = self._begun()
        if row is None:
            row = Row(self._left[-1])
            self.rows.append(row)
        return row
