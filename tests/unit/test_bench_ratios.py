"""B against A: ratios that drift does not touch, intervals that say how sure they are."""

import math
import random

import pytest

from app.bench.ratios import ORDER, estimate, round_difference, round_ratio


def test_a_round_measures_each_side_twice_and_both_at_the_same_mean_time() -> None:
    times = {side: [place for place, at in enumerate(ORDER) if at == side] for side in "AB"}
    assert sum(times["A"]) == sum(times["B"])
    assert len(times["A"]) == len(times["B"]) == 2


def test_a_machine_that_slows_down_steadily_does_not_change_the_ratio() -> None:
    pace = [1.1**turn for turn in range(4)]
    a, b = [10 * pace[0], 10 * pace[3]], [12 * pace[1], 12 * pace[2]]
    assert round_ratio(a, b) == pytest.approx(1.2)


def test_a_ratio_needs_values_above_zero_on_both_sides() -> None:
    assert round_ratio([0, 1], [1, 1]) is None
    assert round_ratio([], [1]) is None


def test_a_difference_may_be_of_zeros() -> None:
    assert round_difference([0, 0], [0, 1]) == 0.5
    assert round_difference([], [1]) is None


def test_equal_rounds_leave_no_doubt() -> None:
    found = estimate([2.0] * 5)
    assert found is not None
    assert (found.median, found.low, found.high, found.n) == (2, 2, 2, 5)


def test_one_round_is_its_own_interval_and_none_has_none() -> None:
    found = estimate([3.0])
    assert found is not None
    assert (found.low, found.high) == (3, 3)
    assert estimate([]) is None


def test_an_interval_is_the_same_for_the_same_seed() -> None:
    values = [1.0, 1.2, 0.9, 1.4, 1.1]
    assert estimate(values, 4) == estimate(values, 4)


def test_the_interval_of_the_median_has_the_bounds_that_counting_gives() -> None:
    """The median of nine drawn is at or below the r-th of nine if at least five draws are: a binomial probability."""

    def at_or_below(rank: int) -> float:
        share = rank / 9
        return sum(math.comb(9, k) * share**k * (1 - share) ** (9 - k) for k in range(5, 10))

    expected = next(rank for rank in range(1, 10) if at_or_below(rank) >= 0.025)
    found = estimate([float(n) for n in range(1, 10)])
    assert found is not None
    assert (found.median, found.low, found.high) == (5, expected, 10 - expected)


def test_the_interval_holds_the_truth_in_most_experiments() -> None:
    chance = random.Random(1)
    held = 0
    for trial in range(60):
        found = estimate([chance.lognormvariate(0, 0.2) for _ in range(9)], trial)
        assert found is not None
        held += found.low <= 1 <= found.high
    assert held >= 50
