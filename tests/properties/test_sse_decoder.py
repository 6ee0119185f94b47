"""The decoder against a naive reading of the standard, one byte at a time, under any cut."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.sse import Event, SseDecoder, encode


def naive(stream: bytes) -> list[Event]:
    """WHATWG HTML 9.2.6, with a last event that may lack its empty line."""
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    lines = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events, data, name = [], b"", b""
    for line in [*lines, b""]:
        if not line:
            if data.removesuffix(b"\n"):
                events.append(Event(data.removesuffix(b"\n"), name))
            data, name = b"", b""
            continue
        at = line.find(b":")
        field, value = (line, b"") if at < 0 else (line[:at], line[at + 1 :])
        value = value.removeprefix(b" ")
        if field == b"data":
            data += value + b"\n"
        if field == b"event":
            name = value
    return events


PIECES = st.sampled_from(
    [
        b"data: x",
        b"data:y",
        b"data",
        b"data: ",
        b"event: n",
        b": c",
        b"id: 1",
        b"retry: 2",
        b"a:b",
        b"\xe2\x80\xa8",
        b"\xff",
    ]
    + [b"\n", b"\r", b"\r\n"] * 4
    + [b"\n\n"] * 6
)
STREAMS = st.lists(PIECES, max_size=30).map(b"".join) | st.binary(max_size=60)


def cut_at(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(edges)]


@settings(max_examples=400, deadline=None)
@given(STREAMS, st.lists(st.integers(0, 10**6), max_size=12), st.booleans())
def test_any_stream_under_any_cut_is_read_as_the_standard_says(stream: bytes, cuts: list[int], mark: bool) -> None:
    """Cases H14, H25, H26, H27."""
    if mark:
        stream = b"\xef\xbb\xbf" + stream
    decoder = SseDecoder()
    events: list[Event] = []
    for piece in cut_at(stream, cuts):
        plain = decoder.plain(piece)
        events += decoder.feed(piece) if plain is None else [Event(data) for data in plain]
    assert events + decoder.close() == naive(stream)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.sampled_from([b"", b"name"]))))
def test_what_is_encoded_is_decoded_again(events: list[tuple[bytes, bytes]]) -> None:
    events = [(data.replace(b"\r", b"").strip(b"\n") or b"x", name) for data, name in events]
    stream = b"".join(encode(data, name) for data, name in events)
    assert b"\r" not in stream
    assert naive(stream) == events
    assert SseDecoder().feed(stream) == events
