"""Whether somebody uses the interactive lane. Pure.

A gap between requests is in any traffic: the lane is empty only after a gap that its own traffic has hardly ever. Of a
Poisson process a gap is longer than `GAPS` times the median once in a thousand times.
"""

import itertools
from collections import deque
from collections.abc import Iterable
from statistics import median

QUIET_S, MOST_S = 5.0, 60.0
"""Seconds of silence after which the lane counts as empty, at least and at most."""

GAPS = 10
KEPT = 32


class Presence:
    """Who was there, and how often somebody comes."""

    def __init__(self) -> None:
        self._seen_at = float("-inf")
        self._came: deque[float] = deque(maxlen=KEPT)

    def take(self, now: float, came: Iterable[float], *, busy: bool) -> None:
        """Takes when requests came, and whether any is there now."""
        self._came.extend(sorted(came))
        if busy:
            self._seen_at = now

    def quiet(self, now: float) -> bool:
        """Whether the lane is empty."""
        gaps = [max(0.0, later - sooner) for sooner, later in itertools.pairwise(self._came)]
        usual = GAPS * median(gaps) if gaps else 0.0
        return now - self._seen_at >= min(MOST_S, max(QUIET_S, usual))
