"""When an engine is warm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.warmup.course import REPEATS, TRIES, Course, steady, ttft_of
from gateway.warmup.plan import Size

ONE, TWO = Size(1, 16), Size(2, 16)


def test_a_size_is_repeated_until_its_ttft_is_steady() -> None:
    course = Course([ONE, TWO])
    for ttft in (6.4, 0.5, 0.07):
        course.succeeded([ttft])
        assert course.next == ONE
    course.succeeded([0.06])
    assert course.next == TWO
    assert course.rows[0].ttfts == [6.4, 0.5, 0.07, 0.06]


def test_one_burst_says_nothing_however_quick_it_is() -> None:
    course = Course([ONE])
    course.succeeded([0.0001])
    assert course.next == ONE
    course.succeeded([0.0001])
    assert course.next is None


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [(0.1, 0.08, True), (0.1, 0.07, False), (0.1, 0.13, True), (0.1, 0.14, False), (0.006, 0.001, True)],
)
def test_a_quarter_or_a_few_milliseconds_are_no_difference(before: float, after: float, same: bool) -> None:
    assert steady([before, after]) is same


def test_what_never_becomes_steady_ends_all_the_same() -> None:
    course = Course([ONE])
    for n in range(REPEATS):
        assert course.next == ONE
        course.succeeded([2.0**-n])
    assert course.next is None


def test_two_bursts_that_are_alike_but_cost_far_more_than_the_size_before_have_both_met_something_new() -> None:
    course = Course([ONE, TWO, Size(2, 512)])
    for ttft in (0.02, 0.02, 0.95, 0.9):  # as seen on one H200, where kernels are compiled for each number of tokens
        course.succeeded([ttft])
    assert course.next == TWO
    for ttft in (0.05, 0.05):
        course.succeeded([ttft])
    assert course.next == Size(2, 512)
    for ttft in (0.9, 0.9):  # another length: nothing is known of it
        course.succeeded([ttft])
    assert course.next is None


def test_long_prompts_that_take_seconds_are_not_asked_for_in_larger_bursts() -> None:
    long, more, other = Size(1, 2048), Size(2, 2048), Size(1, 4096)
    course = Course([ONE, TWO, long, more, other])
    for ttft in (3.0, 3.0):  # the shortest ones reach every size of a batch
        course.succeeded([ttft])
    assert course.next == TWO
    for ttft in (0.1, 0.1, 9.0, 2.1, 2.1):
        course.succeeded([ttft])
    assert course.next == other


def test_a_first_burst_that_takes_seconds_says_nothing_of_later_ones() -> None:
    course = Course([ONE, Size(1, 2048), Size(2, 2048)])
    for ttft in (0.1, 0.1, 9.0, 0.5, 0.5):
        course.succeeded([ttft])
    assert course.next == Size(2, 2048)


def test_the_ttft_of_a_burst_is_that_of_its_slow_requests() -> None:
    assert ttft_of([float(n) for n in range(1, 21)]) == 19.0
    assert ttft_of([3.0, 1.0]) == 3.0


def test_the_third_failure_in_a_row_is_one_too_many() -> None:
    course = Course([ONE])
    assert [course.failed() for _ in range(TRIES)] == [True, True, False]


def test_a_burst_that_ends_well_forgives_failures() -> None:
    course = Course([ONE])
    course.failed()
    course.failed()
    course.succeeded([0.1])
    assert course.failed()


def test_a_size_that_is_refused_is_left_out() -> None:
    course = Course([ONE, TWO])
    course.refused()
    assert course.next == TWO
    assert [(row.size, row.refused) for row in course.rows] == [(ONE, True)]


def test_the_number_of_bursts_is_the_least_that_it_can_be() -> None:
    course = Course([ONE, TWO])
    seen = [(course.done, course.total)]
    for ttft in (1.0, 0.1, 0.1, 0.3, 0.3):
        course.succeeded([ttft])
        seen.append((course.done, course.total))
    assert seen == [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_the_slowest_size_is_the_one_that_waited_longest_at_first() -> None:
    course = Course([ONE, TWO])
    for ttft in (0.1, 0.1, 5.0, 0.2, 0.2):
        course.succeeded([ttft])
    row = course.slowest()
    assert row is not None
    assert (row.size, row.ttfts) == (TWO, [5.0, 0.2, 0.2])


@given(st.lists(st.floats(0.001, 10), min_size=6 * REPEATS, max_size=6 * REPEATS), st.integers(1, 6))
def test_every_course_ends_with_two_to_eight_bursts_of_each_size(ttfts: list[float], number: int) -> None:
    course = Course([Size(n + 1, 16) for n in range(number)])
    for ttft in ttfts:
        if course.next is None:
            break
        done, total = course.done, course.total
        assert done < total
        course.succeeded([ttft])
    assert course.next is None
    assert course.done == course.total == sum(len(row.ttfts) for row in course.rows)
    assert all(2 <= len(row.ttfts) <= REPEATS for row in course.rows)
