"""Percentiles of samples.

A percentile lies between the two samples around it, in proportion (R's type 7; numpy's and Excel's usual way).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CURVE = 101
"""Points of a curve: the percentiles 0, 1, ... 100."""


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share (0 to 1) of samples in ascending order lies.

    Raises:
        ValueError: there are no samples, or the share is none.
    """
    if not ordered or not 0 <= share <= 1:
        raise ValueError("a quantile needs samples and a share from 0 to 1")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Iterable[float]) -> float:
    """The middle of some values, in any order.

    Raises:
        ValueError: there are none.
    """
    return quantile(sorted(values), 0.5)


@dataclass(frozen=True, slots=True)
class Spread:
    """What is told of samples, in their unit; `curve` has the percentiles 0 to 100."""

    n: int
    mean: float
    p50: float
    p95: float
    p99: float
    most: float
    curve: tuple[float, ...]


def spread(values: Iterable[float]) -> Spread | None:
    """The spread of samples in any order; None if there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    mean = math.fsum(ordered) / len(ordered)
    p50, p95, p99 = (quantile(ordered, share) for share in (0.5, 0.95, 0.99))
    curve = tuple(quantile(ordered, point / (CURVE - 1)) for point in range(CURVE))
    return Spread(len(ordered), mean, p50, p95, p99, ordered[-1], curve)
