"""The machine around the strategies: what it counts and says of itself."""

import pytest

from gateway.buffer import TokenBuffer, Window
from gateway.telemetry import ITL_BUCKETS
from tests.traces.script import DONE, chunk, content, cut, datas, finish, reasoning, role, tool, wire


def test_every_cut_of_multibyte_text_says_the_same() -> None:
    """Case H14."""
    stream = wire(role(), *(content(piece) for piece in ("你好", "🚀", " ca", "fé")), finish(), DONE)
    for size in range(1, len(stream)):
        buffer = TokenBuffer(window=Window(100, 100.0))
        for piece in cut(stream, size):
            buffer.feed(piece, 0.0)
        assert datas(buffer.take(0.0)) == [role(), content("你好"), content("🚀 café"), finish(), DONE]


def test_comments_and_meta_lines_between_chunks_are_dropped() -> None:
    """Case H27."""
    buffer = TokenBuffer()
    buffer.feed(b": ping - date\n\nretry: 3000\n\nevent: x\n\n", 0.0)
    assert not buffer.has_event
    assert not buffer.ready(0.0)
    buffer.feed(wire(content("a")) + b": ping\n\n", 0.0)
    assert buffer.has_event
    assert buffer.take(0.0) == wire(content("a"))


def test_crlf_from_the_engine_leaves_as_lf() -> None:
    """Case H26."""
    buffer = TokenBuffer()
    buffer.feed(wire(content("a"), finish(), DONE).replace(b"\n", b"\r\n"), 0.0)
    assert buffer.take(0.0) == wire(content("a"), finish(), DONE)


@pytest.mark.parametrize("first", [reasoning("a"), content("a"), tool(0, None, "id", "f")])
def test_the_first_token_is_the_first_text_reasoning_or_tool_call(first: bytes) -> None:
    """Case H64."""
    buffer = TokenBuffer()
    buffer.feed(b": ping\n\n" + wire(role()), 0.1)
    buffer.feed(wire(chunk({}, token_ids=[7])), 0.5)
    assert buffer.stats.first_token_at is None
    buffer.feed(wire(first), 1.0)
    buffer.feed(wire(content("c")), 5.0)
    assert buffer.stats.first_token_at == 1.0
    assert buffer.stats.last_token_at == 5.0


def test_a_typed_stream_has_a_first_token_too() -> None:
    """Case H64."""
    buffer = TokenBuffer(strategy="passthrough", dialect="responses")
    buffer.feed(wire(b'{"type":"response.created"}'), 1.0)
    buffer.feed(wire(b'{"type":"response.reasoning_text.delta"}'), 2.0)
    buffer.feed(wire(b'{"type":"content_block_delta"}'), 3.0)
    assert (buffer.stats.first_token_at, buffer.stats.tokens) == (2.0, 2)


def test_the_gap_between_tokens_is_shared_by_the_tokens_that_came_together() -> None:
    buffer = TokenBuffer()
    buffer.feed(wire(content("a")), 1.0)
    buffer.feed(wire(content("b"), content("c"), content("d"), content("e")), 1.04)
    buffer.feed(b": ping\n\n", 1.05)
    buffer.feed(wire(content("f")), 1.09)
    itl = dict(zip(ITL_BUCKETS, buffer.stats.itl, strict=False))
    assert {bound: count for bound, count in itl.items() if count} == {0.015: 4, 0.06: 1}
    assert buffer.stats.itl_sum == pytest.approx(0.09)


def test_what_came_and_what_left_is_counted() -> None:
    buffer = TokenBuffer()
    buffer.feed(wire(role(), *(content("a") for _ in range(9)), finish(), DONE), 0.0)
    buffer.finish(0.0)
    stats = buffer.stats
    assert (stats.events_in, stats.events_out, stats.tokens) == (12, 6, 9)
    assert stats.flush_tokens[:4] == [1, 0, 0, 2]
    assert stats.flush_tokens_sum == 9


def test_waiting_bytes_above_the_high_water_mark_say_stop() -> None:
    """Case H57."""
    buffer = TokenBuffer(high_water=600)
    buffer.reader_busy = True
    assert buffer.reader_busy
    buffer.feed(wire(content("a"), content("b")), 0.0)
    assert not buffer.full
    buffer.feed(wire(content("c"), content("d"), content("e")), 0.0)
    assert buffer.full, "what is held in a run counts too"
    buffer.reader_busy = False
    buffer.take(0.0)
    assert not buffer.full


def test_the_cost_of_a_token_does_not_grow_with_the_answer() -> None:
    """Case H55: nothing is kept of what has left."""
    buffer = TokenBuffer()
    event = wire(content("word "))
    sizes = []
    for number in range(3000):
        buffer.feed(event, number * 0.01)
        buffer.take(number * 0.01)
        sizes.append(buffer._strategy.pending + buffer._outbox.size)
    assert max(sizes) <= 4 * len(event)
    assert len(buffer._strategy._templates) == 1  # type: ignore[attr-defined]


def test_a_stream_whose_chunks_never_repeat_keeps_few_templates() -> None:
    """Case H55."""
    buffer = TokenBuffer()
    for number in range(200):
        pair = [content("a", top={"n": number})] * 2
        buffer.feed(wire(*pair), number * 0.01)
    assert len(buffer._strategy._templates) <= 16  # type: ignore[attr-defined]


def test_unknown_strategies_and_dialects_are_refused() -> None:
    with pytest.raises(KeyError):
        TokenBuffer(strategy="none")
    with pytest.raises(KeyError):
        TokenBuffer(dialect="none")


def test_what_comes_behind_the_finish_is_read_at_once() -> None:
    """It is shorter than a token, so that waiting for as many bytes would hold the end back."""
    buffer = TokenBuffer()
    for number in range(6):
        buffer.feed(wire(content(f"t{number}")), number * 0.01)
    assert buffer.may_wait()[0] > 1
    buffer.feed(wire(finish()), 0.07)
    assert buffer.may_wait()[0] == 0


def test_the_first_text_leaves_without_a_closer_look_and_the_second_one_is_enough_to_know_both() -> None:
    buffer = TokenBuffer()
    buffer.feed(wire(role(), content("a")), 0.0)
    assert not len(buffer._strategy._templates)  # type: ignore[attr-defined]
    assert buffer.may_wait() == (1, 0.0)
    buffer.feed(wire(content("b")), 0.01)
    assert len(buffer._strategy._templates) == 1  # type: ignore[attr-defined]
    assert buffer.may_wait()[0] > len(content("c"))


@pytest.mark.parametrize(("gap", "full_in"), [(0.004, 0.008), (0.009, 0.018), (0.011, 0.0), (0.02, 0.0)])
def test_how_long_the_rest_of_a_window_takes_is_known_where_it_will_be_full(gap: float, full_in: float) -> None:
    buffer = TokenBuffer(window=Window(4, 0.04))
    for number in range(8):
        buffer.feed(wire(content(f"t{number}")), number * gap)
    assert buffer.may_wait()[1] == pytest.approx(full_in)


def test_nothing_is_known_of_a_window_before_there_are_tokens() -> None:
    buffer = TokenBuffer()
    assert buffer.may_wait()[1] == 0.0
    buffer.feed(wire(content("a")), 0.0)
    assert buffer.may_wait()[1] == 0.0
    assert TokenBuffer(strategy="passthrough").may_wait()[1] == 0.0
