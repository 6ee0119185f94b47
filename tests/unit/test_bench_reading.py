"""One answer: what stops the clock, what counts as a token, what is an error."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bench import outcome as kinds
from app.bench.reading import Reading
from tests.fakes.scripted_engine import chunk as http_chunk
from tests.fakes.scripted_engine import ok, stream_head
from tests.traces.script import (
    DONE,
    chunk,
    content,
    dump,
    finish,
    reasoning,
    role,
    text,
    tool,
    usage_only,
    wire,
)

TRACES = Path(__file__).parents[1] / "traces"
END = http_chunk(b"")


def read(*pieces: tuple[float, bytes], sent: float = 100.0, closed: bool = False) -> Reading:
    """The reading of a stream whose pieces of body come at seconds after the sending; the last one ends it."""
    reading = Reading(sent)
    reading.received(stream_head(), sent)
    for after, piece in pieces:
        reading.received(http_chunk(piece), sent + after)
    if closed:
        reading.closed()
    else:
        reading.received(END, sent + pieces[-1][0])
    return reading


def whole(*deltas: bytes) -> bytes:
    return wire(role(), *deltas, finish(), usage_only(5, 9), DONE)


def test_the_clock_stops_at_the_first_reasoning_and_not_at_the_role_or_a_comment() -> None:
    """Case H64."""
    reading = read(
        (0.05, b": ping\n\n"),
        (0.1, wire(role())),
        (1, wire(reasoning("hm"))),
        (5, wire(content("yes"))),
        (5.5, wire(finish(), DONE)),
    )
    assert reading.first == 101
    assert reading.gaps == [4]
    assert reading.kind() == kinds.OK


def test_an_answer_of_a_tool_call_alone_has_a_first_token() -> None:
    """Case H64."""
    reading = read(
        (0.1, wire(role())), (2, wire(tool(0, None, "id", "f"))), (2.5, wire(tool(0, "{}"))), (3, wire(finish(), DONE))
    )
    assert (reading.first, reading.gaps) == (102, [0.5])


@pytest.mark.parametrize(
    "empty", [chunk({}), content(""), chunk({"content": None}), reasoning(""), chunk({"tool_calls": []})]
)
def test_a_chunk_that_shows_nothing_does_not_stop_the_clock(empty: bytes) -> None:
    assert read((1, wire(empty)), (2, whole(content("x")))).first == 102


def test_an_error_before_a_token_leaves_no_sample() -> None:
    """Case H64."""
    reading = read((1, wire(role(), dump({"error": {"message": "broken", "code": 500}}), DONE)))
    assert (reading.kind(), reading.first) == (kinds.ERROR_EVENT, None)
    assert "broken" in reading.detail


def test_events_that_arrive_together_have_no_gap() -> None:
    assert read((1, wire(content("a"), content("b"))), (2, wire(content("c"), finish(), DONE))).gaps == [0, 1]


def test_tokens_are_those_of_the_usage() -> None:
    reading = read((1, whole(content("a"), content("b"))))
    assert (reading.tokens, reading.by_usage, reading.prompt_tokens) == (9, True, 5)


def test_without_usage_tokens_are_those_that_are_listed_else_events_with_text() -> None:
    assert read((1, wire(role(), content("a"), content("b"), finish(), DONE))).tokens == 2
    listed = chunk({"content": "abc"}, token_ids=[1, 2, 3])
    reading = read((1, wire(listed, content("d"), finish(), DONE)))
    assert (reading.tokens, reading.by_usage) == (4, False)


def test_completions_are_read_as_well() -> None:
    reading = read((1, wire(text("a"))), (2, wire(text("b", finish_reason="length"), DONE)))
    assert (reading.kind(), reading.first, reading.gaps, reading.events) == (kinds.OK, 101, [1], 2)


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([wire(content("a"))], kinds.CUT),
        ([wire(content("a"), DONE)], kinds.CUT),
        ([wire(content("a"), finish())], kinds.NO_DONE),
        ([wire(role(), finish(), DONE)], kinds.EMPTY),
        ([b"data: {\n\n"], kinds.MALFORMED),
        ([wire(content("a")) + b"data: nonsense\n\n"], kinds.MALFORMED),
    ],
)
def test_an_answer_that_is_not_whole_is_told_apart(pieces: list[bytes], kind: str) -> None:
    assert read(*((1.0, piece) for piece in pieces)).kind() == kind


def test_a_connection_that_breaks_is_a_cut() -> None:
    reading = read((1, wire(content("a"))), closed=True)
    assert (reading.kind(), reading.over, reading.reusable) == (kinds.CUT, True, False)


def test_what_follows_nonsense_is_not_waited_for() -> None:
    reading = Reading(0)
    reading.received(stream_head() + http_chunk(b"data: nonsense\n\n"), 1)
    assert (reading.over, reading.reusable) == (True, False)


def test_a_refusal_has_its_status_its_words_and_its_time() -> None:
    reading = Reading(0)
    reading.received(ok(b'{"error":{"message":"full"}}', b"Retry-After: 3", status=b"429 Too Many Requests"), 1)
    assert (reading.kind(), reading.retry_after(), reading.over, reading.reusable) == ("http 429", 3, True, True)
    assert "full" in reading.detail


@pytest.mark.parametrize("value", [b"", b"Wed, 21 Oct 2026 07:28:00 GMT", b"-1", b"nan", b"1e9"])
def test_a_time_that_is_no_sensible_number_of_seconds_is_none(value: bytes) -> None:
    reading = Reading(0)
    reading.received(ok(b"{}", b"Retry-After: " + value, status=b"503 Busy"), 1)
    assert reading.retry_after() is None


def test_an_answer_that_is_no_stream_is_malformed() -> None:
    reading = Reading(0)
    reading.received(ok(b'{"choices":[]}'), 1)
    assert (reading.kind(), reading.content) == (kinds.MALFORMED, b'{"choices":[]}')


def test_what_is_not_http_is_malformed() -> None:
    reading = Reading(0)
    reading.received(b"SSH-2.0-x\r\n\r\n", 1)
    assert (reading.kind(), reading.over) == (kinds.MALFORMED, True)


def test_a_connection_closed_before_any_byte_is_stale() -> None:
    reading = Reading(0)
    reading.closed()
    assert (reading.stale, reading.kind()) == (True, kinds.CUT)


def test_patience_is_counted_from_the_sending_then_from_the_latest_text() -> None:
    reading = Reading(10)
    assert reading.due(first=300, gap=60) == 310
    reading.received(stream_head() + http_chunk(wire(role()) + b": ping\n\n"), 20)
    assert reading.due(first=300, gap=60) == 310
    reading.received(http_chunk(wire(content("a"))), 30)
    assert reading.due(first=300, gap=60) == 90


def test_what_took_too_long_is_silent_before_the_first_text_and_stalled_after_it() -> None:
    silent, stalled = Reading(0), Reading(0)
    stalled.received(stream_head() + http_chunk(wire(content("a"))), 1)
    for reading in (silent, stalled):
        reading.give_up()
    assert [reading.kind() for reading in (silent, stalled)] == [kinds.SILENT, kinds.STALLED]
    assert silent.over
    assert not silent.stale


def test_an_error_event_after_which_nothing_comes_is_still_that_error() -> None:
    reading = Reading(0)
    reading.received(stream_head() + http_chunk(wire(dump({"error": {"message": "x"}}))), 1)
    reading.give_up()
    assert reading.kind() == kinds.ERROR_EVENT


def fed(pieces: Iterable[bytes]) -> Reading:
    reading = Reading(0)
    for piece in pieces:
        reading.received(piece, 1)
    return reading


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_it_does_not_matter_where_the_bytes_are_cut(data: st.DataObject) -> None:
    stream = stream_head() + http_chunk(whole(content("é"), reasoning("b"))) + END
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=12)))
    reading = fed(stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True))
    assert (reading.kind(), reading.tokens, reading.events, len(reading.gaps)) == (kinds.OK, 9, 5, 1)


@pytest.mark.parametrize(
    "name",
    [
        "chat_stream_include_usage",
        "completions_stream_include_usage",
        "chat_stream_tools_auto_one",
        "reasoning_deepseek_r1_stream",
    ],
)
def test_recorded_streams_of_vllm_are_read_to_their_end(name: str) -> None:
    reading = fed([stream_head(), http_chunk((TRACES / name / "body.sse").read_bytes()), END])
    assert (reading.kind(), reading.over, reading.reusable) == (kinds.OK, True, True)
    assert reading.tokens > 3
