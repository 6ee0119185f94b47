"""The decoder: bytes to events for any cut and any line end."""

import time

import pytest

from gateway.errors import EngineBroke
from gateway.wire.sse import COMMENT_PING, Event, SseDecoder, encode


def decode(*pieces: bytes, max_event: int = 1000) -> list[Event]:
    decoder = SseDecoder(max_event)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_events_arrive_with_their_empty_line_whatever_the_line_end(end: bytes) -> None:
    """Case H26."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: a" + end + end) == [Event(b"a")]
    assert decoder.feed(b"data: b" + end) == []
    assert decoder.feed(end) == [Event(b"b")]


def test_line_ends_may_be_mixed_and_cut_between_cr_and_lf() -> None:
    """Case H26."""
    assert decode(b"data: a\r", b"\n\r", b"\ndata: b\n\r", b"\ndata: c\r\r") == [Event(b"a"), Event(b"b"), Event(b"c")]


def test_an_event_may_be_cut_between_its_newlines_and_inside_its_field_name() -> None:
    """Case H25 c, d."""
    assert decode(b"da", b"ta: a\n", b"\nd", b"ata: b\n\n") == [Event(b"a"), Event(b"b")]


def test_the_last_event_may_lack_its_empty_line() -> None:
    """Case H25 e."""
    assert decode(b"data: a\n\ndata: b") == [Event(b"a"), Event(b"b")]
    assert decode(b"data: a\n\ndata: b\n") == [Event(b"a"), Event(b"b")]


def test_several_data_lines_are_one_event() -> None:
    """Case H25 f."""
    assert decode(b'data: {"a":\ndata: 1}\n\n') == [Event(b'{"a":\n1}')]


def test_the_space_after_the_colon_is_optional_and_only_one_is_dropped() -> None:
    """Case H25 g."""
    assert decode(b"data:{}\n\ndata:  x\n\n") == [Event(b"{}"), Event(b" x")]


def test_comments_and_meta_lines_are_no_events() -> None:
    """Case H27."""
    stream = b": ping - date\n\nretry: 3000\n\nid: 7\n\nevent: x\n\ndata\n\ndata:\n\ndata: a\n\n: end\n\n"
    assert decode(stream) == [Event(b"a")]
    assert decode(b": c\nretry: 1\nid: 2\nunknown: 3\ndata: a\n\n") == [Event(b"a")]


def test_an_event_keeps_its_name_and_the_next_one_does_not() -> None:
    """Case H29."""
    assert decode(b"event: message_stop\ndata: {}\n\ndata: a\n\n") == [Event(b"{}", b"message_stop"), Event(b"a")]


def test_a_byte_order_mark_is_dropped_even_if_it_comes_in_pieces() -> None:
    assert decode(b"\xef\xbb\xbfdata: a\n\n") == [Event(b"a")]
    assert decode(b"\xef", b"\xbb", b"\xbf", b"data: a\n\n") == [Event(b"a")]
    assert decode(b"data: \xef\xbb\xbf\n\n") == [Event(b"\xef\xbb\xbf")]


def test_separators_of_unicode_end_no_line_and_broken_characters_stay_as_they_are() -> None:
    """Case H14."""
    data = "a\u2028b\u2029c\u0085".encode() + b"\xff\x00"
    assert decode(b"data: " + data + b"\n\n") == [Event(data)]


def test_an_event_that_is_too_large_raises_after_those_before_it() -> None:
    """Case H56."""
    decoder = SseDecoder(max_event=20)
    assert decoder.feed(b"data: a\n\ndata: " + b"x" * 40) == [Event(b"a")]
    assert decoder.broken
    with pytest.raises(EngineBroke):
        decoder.feed(b"")
    with pytest.raises(EngineBroke):
        decoder.close()


@pytest.mark.parametrize("data", [b"data: " + b"x" * 40 + b"\n\n", b"x" * 40])
def test_an_event_or_line_that_is_too_large_raises_whether_it_has_an_end_or_not(data: bytes) -> None:
    """Case H56."""
    for size in (1, 7, 100):
        decoder = SseDecoder(max_event=20)
        with pytest.raises(EngineBroke):  # noqa: PT012 - any of the pieces may be the one
            for at in range(0, len(data), size):
                decoder.feed(data[at : at + size])


def test_an_event_of_the_largest_size_is_delivered() -> None:
    assert decode(b"data: " + b"x" * 14 + b"\n\n", max_event=20) == [Event(b"x" * 14)]


def test_a_large_event_in_pieces_takes_time_in_proportion_to_its_size() -> None:
    """Case H56."""

    def seconds(size: int) -> float:
        stream = b"data: " + b"x" * size + b"\n\n"
        decoder = SseDecoder()
        start = time.process_time()
        events = [event for at in range(0, size + 8, 16384) for event in decoder.feed(stream[at : at + 16384])]
        assert [len(event.data) for event in events] == [size]
        return time.process_time() - start

    small = min(seconds(1_000_000) for _ in range(3))
    assert seconds(10_000_000) < 60 * small + 0.05


def test_the_quick_way_takes_whole_plain_events_only() -> None:
    decoder = SseDecoder()
    assert decoder.plain(b"data: a\n\ndata: b\n\n") == [b"a", b"b"]
    for other in (b"data: a\n", b"event: x\ndata: a\n\n", b"data: a\r\n\r\n", b"data:a\n\n", b"data: \n\n", b": c\n\n"):
        assert decoder.plain(other) is None
    decoder.feed(b"data: a\n")
    assert decoder.plain(b"data: b\n\n") is None, "an event is under way"


def test_a_byte_order_mark_is_one_before_everything_else_and_nowhere_else() -> None:
    marked = b"\xef\xbb\xbfdata: a\n\n"
    decoder = SseDecoder()
    assert decoder.plain(marked) is None
    assert decoder.feed(marked) == [Event(b"a")]
    decoder = SseDecoder()
    assert decoder.plain(b"data: a\n\n") == [b"a"]
    assert decoder.feed(marked) == [], "a field of another name"
    decoder = SseDecoder()
    assert decoder.feed(marked[:2]) == []
    assert decoder.plain(b"data: a\n\n") is None, "it is not known yet what has begun"


def test_events_are_written_with_lf_only_and_data_of_several_lines_in_several_lines() -> None:
    """Case H26."""
    assert encode(b"a") == b"data: a\n\n"
    assert encode(b"a\nb", b"x") == b"event: x\ndata: a\ndata: b\n\n"
    assert decode(encode(b"a\nb", b"x")) == [Event(b"a\nb", b"x")]


def test_a_ping_is_a_comment() -> None:
    """Case H27."""
    assert COMMENT_PING.startswith(b":")
    assert decode(COMMENT_PING) == []
