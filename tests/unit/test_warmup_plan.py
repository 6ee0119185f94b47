"""Which bursts warm an engine."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.warmup import Extent, Size, sizes


def test_concurrency_doubles_up_to_the_slots_for_one_length_after_the_other() -> None:
    extent = Extent(concurrency=6, prompt_tokens=(512, 16), longest=0)
    assert sizes(extent, 4096) == tuple(Size(n, length) for length in (16, 512) for n in (1, 2, 4, 6))


def test_the_last_length_is_what_the_engine_takes_with_room_for_the_answer() -> None:
    assert sizes(Extent(1, (16,), longest=8192, answer_tokens=8), 2048) == (Size(1, 16), Size(1, 2040))


def test_the_last_length_is_bounded_by_the_setting() -> None:
    assert sizes(Extent(1, (16,), longest=8192), 131072)[-1] == Size(1, 8192)


def test_without_a_known_length_there_are_only_those_that_are_named() -> None:
    assert sizes(Extent(1, (16, 512)), None) == (Size(1, 16), Size(1, 512))


def test_no_prompt_is_longer_than_the_engine_takes_and_none_is_there_twice() -> None:
    assert sizes(Extent(1, (16, 512, 1024), answer_tokens=8), 128) == (Size(1, 16), Size(1, 120))


def test_a_burst_holds_a_bounded_number_of_tokens_and_one_request_is_always_allowed() -> None:
    extent = Extent(8, (1024, 9000), longest=0, burst_tokens=4096)
    assert sizes(extent, 32768) == (Size(1, 1024), Size(2, 1024), Size(4, 1024), Size(1, 9000))


@given(
    most=st.integers(1, 300),
    lengths=st.lists(st.integers(1, 20_000), max_size=4),
    longest=st.integers(0, 20_000),
    answer=st.integers(1, 16),
    limit=st.none() | st.integers(1, 20_000),
)
def test_whatever_the_settings_no_burst_is_more_than_the_engine_takes(
    most: int, lengths: list[int], longest: int, answer: int, limit: int | None
) -> None:
    planned = sizes(Extent(most, tuple(lengths), longest, answer), limit)
    assert len(set(planned)) == len(planned)
    assert all(1 <= size.concurrency <= most and size.prompt_tokens >= 1 for size in planned)
    if limit is not None and limit > answer:
        assert all(size.prompt_tokens + answer <= limit for size in planned)
    if lengths:
        assert any(size.concurrency == 1 for size in planned)
