"""The estimate of when the next token comes."""

import pytest

from gateway.buffer.gap import Gap


def after(*times: float) -> Gap:
    gap = Gap()
    for now in times:
        gap.came(now)
    return gap


def test_nothing_is_expected_before_there_was_a_gap() -> None:
    assert after().expected is None
    assert after(5.0).expected is None
    assert after(5.0, 5.0).expected is None, "tokens that come together are one arrival"


def test_the_next_token_is_expected_after_the_median_of_three_gaps() -> None:
    assert after(0, 4).expected == 8
    assert after(0, 4, 6).expected == 8, "of two gaps the smaller one counts"
    for times in ((0, 1, 3, 6), (0, 3, 5, 6), (0, 2, 5, 6), (0, 1, 4, 6), (0, 3, 4, 6), (0, 2, 3, 6)):
        assert after(*times).expected == 8


@pytest.mark.parametrize("at", range(4))
def test_one_outlier_changes_nothing(at: int) -> None:
    gaps = [10.0] * 4
    gaps[at] = 1000.0
    times = [sum(gaps[:count]) for count in range(5)]
    assert after(*times).expected == times[-1] + 10


def test_a_lasting_change_is_followed_after_two_tokens() -> None:
    assert after(0, 1, 2, 3, 103, 203).expected == 303
