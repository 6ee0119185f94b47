"""The search ends, in few steps, where its rule says."""

from collections.abc import Callable

import pytest

from app.bench.search import Search


def searched(passes: Callable[[int], bool], most: int = 1024) -> tuple[Search, list[int]]:
    search, levels = Search(most=most), []
    while (level := search.level) is not None:
        levels.append(level)
        search.tell(good=passes(level))
        assert len(levels) < 60
    return search, levels


@pytest.mark.parametrize("truth", [1, 2, 3, 7, 37, 64, 100, 511, 700, 1023])
def test_it_finds_the_greatest_level_within_five_percent_or_one(truth: int) -> None:
    search, levels = searched(lambda level: level <= truth)
    assert search.failed is not None
    assert search.passed <= truth < search.failed
    assert search.failed - search.passed <= max(1, 0.05 * search.passed)
    assert len(levels) <= 30
    assert f"{search.passed} passed and {search.failed} failed" in search.stopped


def test_it_doubles_until_it_fails() -> None:
    assert searched(lambda level: level <= 20)[1][:6] == [1, 2, 4, 8, 16, 32]


def test_the_greatest_level_allowed_ends_it() -> None:
    search, levels = searched(lambda _: True, most=100)
    assert (search.passed, levels[-2:]) == (100, [64, 100])
    assert "100, passed" in search.stopped


def test_a_start_that_fails_twice_ends_it_with_nothing() -> None:
    search, levels = searched(lambda _: False)
    assert (search.passed, levels) == (0, [1, 1])
    assert "the start, 1, failed" in search.stopped


def test_one_stray_failure_does_not_cut_it_short() -> None:
    failed: list[int] = []

    def passes(level: int) -> bool:
        if level in (4, 16) and level not in failed:
            failed.append(level)
            return False
        return level <= 40

    assert 38 <= searched(passes)[0].passed <= 40


def test_a_search_that_was_left_says_so() -> None:
    assert Search().stopped == "it was interrupted"
