"""B against A, measured in turns: A B B A in each round.

A machine that grows slower at a steady pace does so as much for A as for B within such a round, and the round's ratio
does not see it. Rounds are taken as independent samples; what is told is their median, and the interval in which the
median of rounds drawn again from them lies in 95 of 100 draws (percentile bootstrap: Efron and Tibshirani, "An
Introduction to the Bootstrap", 1993, chapter 13). Few rounds give a wide interval, as they should.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from app.bench.quantiles import median, quantile

ORDER = "ABBA"
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median over rounds, the bounds of its 95 % interval, and the number of rounds."""

    median: float
    low: float
    high: float
    n: int


def round_ratio(a: Sequence[float], b: Sequence[float]) -> float | None:
    """B over A in one round, as the ratio of geometric means; None where a value is missing or not above zero."""
    if not a or not b or min(*a, *b) <= 0:
        return None
    return math.exp(_mean([math.log(value) for value in b]) - _mean([math.log(value) for value in a]))


def round_difference(a: Sequence[float], b: Sequence[float]) -> float | None:
    """B minus A in one round, in their unit; None where a value is missing."""
    return _mean(b) - _mean(a) if a and b else None


def estimate(values: Sequence[float], seed: int = 0) -> Estimate | None:
    """The median of the rounds' values and its interval; None without values."""
    if not values:
        return None
    chance = random.Random(seed)
    drawn = sorted(median(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    return Estimate(median(values), quantile(drawn, 0.025), quantile(drawn, 0.975), len(values))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
