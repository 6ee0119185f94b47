"""When it is asked."""

import itertools
import statistics
from typing import Any

import pytest

from app.bench.load import Load, arrivals, load


def test_arrivals_begin_at_once_and_come_at_the_mean_rate_with_the_spread_of_a_poisson_process() -> None:
    times = list(itertools.islice(arrivals(20, "seed"), 4001))
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert times[0] == 0
    assert statistics.mean(gaps) == pytest.approx(1 / 20, rel=0.06)
    assert statistics.stdev(gaps) == pytest.approx(1 / 20, rel=0.1)


def test_arrivals_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    first, again, other = (list(itertools.islice(arrivals(3, seed), 9)) for seed in ("a", "a", "b"))
    assert first == again != other


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests": 1},
        {"concurrency": 1, "rate": 1, "requests": 1},
        {"concurrency": 1},
        {"concurrency": 0, "requests": 1},
        {"rate": -1, "requests": 1},
        {"concurrency": 1, "duration": 0},
        {"concurrency": 1, "requests": 1, "warmup": -1},
    ],
)
def test_a_load_that_is_none_or_would_never_end_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|load"):
        Load(**wrong)


def test_what_is_left_open_grows_with_the_load() -> None:
    assert [load(concurrency=users).requests for users in (1, 8, 64)] == [32, 32, 256]
    assert [load(rate=rate).requests for rate in (1, 50)] == [32, 500]
    assert [load(concurrency=users).warmup for users in (1, 8, 64)] == [1, 8, 32]


def test_a_duration_alone_sets_no_number() -> None:
    assert load(concurrency=4, duration=3).requests is None


def test_a_load_is_named_after_what_it_is() -> None:
    assert [load(concurrency=1).label, load(concurrency=8).label, load(rate=2.5).label] == [
        "1 user",
        "8 users",
        "2.5/s",
    ]


def test_a_load_at_another_concurrency_has_the_requests_that_it_needs() -> None:
    assert load(concurrency=1).at(64) == Load(64, None, 256, None, 32)
    assert load(concurrency=1, duration=2, warmup=0).at(64) == Load(64, None, None, 2, 0)
