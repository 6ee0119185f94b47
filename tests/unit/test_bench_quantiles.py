"""Percentiles against known values."""

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bench.quantiles import median, quantile, spread


def test_a_percentile_lies_between_two_samples_in_proportion() -> None:
    assert [quantile([10, 20, 30, 40], share) for share in (0, 0.25, 0.5, 1)] == [10, 17.5, 25, 40]


def test_one_sample_is_every_percentile() -> None:
    assert {quantile([7], share) for share in (0, 0.3, 0.99, 1)} == {7}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60))
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    expected = statistics.quantiles(values, n=100, method="inclusive")
    found = [quantile(sorted(values), point / 100) for point in range(1, 100)]
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_median_takes_values_in_any_order() -> None:
    assert median([3, 1, 2]) == 2


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_without_samples_or_with_a_share_that_is_none_there_is_no_percentile(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="a quantile needs"):
        quantile(values, share)


def test_a_spread_tells_number_mean_percentiles_and_a_curve_from_least_to_greatest() -> None:
    found = spread(range(100, -1, -1))
    assert found is not None
    assert (found.n, found.mean, found.p50, found.most) == (101, 50, 50, 100)
    assert (found.p95, found.p99) == pytest.approx((95, 99))
    assert found.curve == pytest.approx(range(101))


def test_nothing_has_no_spread() -> None:
    assert spread([]) is None
