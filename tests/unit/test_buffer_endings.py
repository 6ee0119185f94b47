"""How streams end: what was received leaves first, and nothing is invented."""

import json

import pytest

from gateway.buffer import TokenBuffer, Window
from gateway.errors import EngineAnswered, EngineBroke, EngineError, EngineStalled, EngineTruncated
from tests.traces.script import (
    DONE,
    assemble,
    chunk,
    content,
    cut,
    datas,
    dump,
    finish,
    reasoning,
    role,
    tool,
    unwire,
    usage_only,
    wire,
)

ERROR = b'{"error": {"message": "EngineCore died", "type": "InternalServerError", "param": null, "code": 500}}'


def relayed(
    stream: bytes, error: EngineError | None = None, *, dialect: str = "openai", size: int = 10**6
) -> tuple[list[bytes], TokenBuffer]:
    """The data of all events that leave, and the buffer, whose window would hold them for ever."""
    buffer = TokenBuffer(window=Window(1000, 1000.0), dialect=dialect)
    for piece in cut(stream, size):
        buffer.feed(piece, 0.0)
    buffer.finish(0.0, error)
    buffer.finish(0.0, EngineStalled("the second time"))
    out = datas(buffer.take(0.0))
    assert buffer.ended
    return out, buffer


def code(data: bytes) -> str:
    error = json.loads(data)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return str(error["code"])


def test_a_whole_answer_ends_as_the_engine_ended_it() -> None:
    stream = [role(), content("a"), finish(), usage_only(1, 1), DONE]
    out, buffer = relayed(wire(*stream))
    assert out == stream
    assert (buffer.failure, buffer.complete, buffer.error_seen) == (None, True, False)


@pytest.mark.parametrize("error", [None, EngineBroke("reset"), EngineStalled("silence")])
def test_a_done_that_is_missing_after_every_finish_is_added(error: EngineError | None) -> None:
    """Case H7."""
    out, buffer = relayed(wire(content("a"), finish()), error)
    assert out == [content("a"), finish(), DONE]
    assert buffer.failure is None


@pytest.mark.parametrize("rest", [b"data: [DO", b"data: [DONE]", b"da", b'data: {"choices":[],"usa', b": ping"])
def test_a_done_that_is_cut_or_cut_off_is_added(rest: bytes) -> None:
    """Case H7."""
    out, buffer = relayed(wire(content("a"), finish()) + rest)
    assert out == [content("a"), finish(), DONE]
    assert buffer.failure is None


@pytest.mark.parametrize("error", [EngineBroke("reset"), EngineStalled("no event in 60 s"), None])
def test_what_was_received_leaves_before_the_one_error_event(error: EngineError | None) -> None:
    """Cases H7, H8: no finish is invented, no `[DONE]`, no token lost."""
    out, buffer = relayed(wire(role(), content("part"), content("ial "), content("answer")), error)
    assert out[:-1] == [role(), content("part"), content("ial answer")]
    row = {EngineBroke: "engine_broke", EngineStalled: "engine_timeout", type(None): "engine_truncated"}
    assert code(out[-1]) == row[type(error)]
    assert buffer.failure is error or isinstance(buffer.failure, EngineTruncated)
    assert not buffer.error_seen
    assert not buffer.complete


def test_a_tool_call_with_half_its_arguments_is_not_finished() -> None:
    """Case H7."""
    out, _ = relayed(wire(tool(0, "", "a", "f"), tool(0, '{"x'), tool(0, '":')))
    assert out[:-1] == [tool(0, "", "a", "f"), tool(0, '{"x":')]
    assert code(out[-1]) == "engine_truncated"


def test_one_choice_that_is_not_finished_makes_the_answer_incomplete() -> None:
    """Case H17."""
    out, buffer = relayed(wire(content("a", 0), content("b", 1), finish(index=0)))
    assert code(out[-1]) == "engine_truncated"
    assert isinstance(buffer.failure, EngineTruncated)


@pytest.mark.parametrize("error", [None, EngineBroke("reset")])
def test_an_event_that_is_cut_inside_its_json_is_not_sent(error: EngineError | None) -> None:
    """Case H7."""
    out, buffer = relayed(wire(content("a"), content("b")) + b"data: " + content("c")[:-9], error)
    assert out[:-1] == [content("a"), content("b")]
    assert code(out[-1]) == "engine_broke"
    assert str(buffer.failure) == "the engine sent something that is not JSON" if error is None else "reset"


@pytest.mark.parametrize("error", [None, EngineBroke("reset")])
def test_a_last_event_that_lacks_only_its_empty_line_is_sent(error: EngineError | None) -> None:
    """Case H25 e."""
    out, buffer = relayed(wire(content("a")) + b"data: " + finish(), error)
    assert out == [content("a"), finish(), DONE]
    assert buffer.failure is None


@pytest.mark.parametrize("garbage", [b"<html>", b"7", b"[]", b'"x"', b"null", b"{", b"[DONE", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_ends_the_stream_after_what_came_before(garbage: bytes) -> None:
    buffer = TokenBuffer()
    buffer.feed(wire(content("a"), content("b"), garbage, content("c")) * 2, 0.0)
    assert buffer.complete
    buffer.feed(wire(content("d")), 0.0)
    buffer.finish(0.0)
    out = datas(buffer.take(0.0))
    assert out[:-1] == [content("a"), content("b")]
    assert json.loads(out[-1])["error"]["message"] == "the engine sent something that is not JSON"
    assert isinstance(buffer.failure, EngineBroke)


def test_garbage_before_any_event_leaves_the_status_open() -> None:
    buffer = TokenBuffer()
    buffer.feed(b"data: <html>\n\n", 0.0)
    assert buffer.complete
    assert not buffer.has_event
    assert isinstance(buffer.failure, EngineBroke)


@pytest.mark.parametrize("size", [10, 10**6])
def test_an_event_that_is_too_large_ends_the_stream_after_what_came_before(size: int) -> None:
    """Case H56."""
    buffer = TokenBuffer(max_event=300)
    for piece in cut(wire(content("a"), content("b")) + b"data: " + b"x" * 1000, size):
        buffer.feed(piece, 0.0)
    assert buffer.complete
    assert isinstance(buffer.failure, EngineBroke)
    out = datas(buffer.take(0.0))
    assert out[:-1] == [content("a"), content("b")]
    assert code(out[-1]) == "engine_broke"


def test_an_error_event_before_any_other_is_kept_for_the_status() -> None:
    """Case H28 b."""
    event = b'{"error": {"message": "bad grammar", "type": "BadRequestError", "param": null, "code": 400}}'
    out, buffer = relayed(wire(event, DONE))
    assert buffer.opening_error == event
    assert (buffer.has_event, buffer.error_seen, buffer.stats.first_token_at) == (True, True, None)
    assert isinstance(buffer.failure, EngineAnswered)
    assert buffer.failure.status == 400
    assert out == [event, DONE]


@pytest.mark.parametrize("tail", [(), (DONE,)])
@pytest.mark.parametrize("error", [None, EngineBroke("reset")])
def test_an_engines_own_error_passes_and_no_other_is_added(tail: tuple[bytes, ...], error: EngineError | None) -> None:
    """Cases H28 d, H30."""
    out, buffer = relayed(wire(role(), reasoning("a"), reasoning("b"), reasoning("c"), ERROR, *tail), error)
    assert out == [role(), reasoning("a"), reasoning("bc"), ERROR, *tail]
    assert buffer.opening_error is None
    assert isinstance(buffer.failure, EngineAnswered)
    assert (buffer.failure.status, buffer.failure.body) == (500, ERROR)


def test_an_error_event_on_a_stream_that_stays_open_is_seen_at_once() -> None:
    """Case H50."""
    buffer = TokenBuffer()
    buffer.feed(wire(content("a"), content("b"), b'{"error":{"code":"429"}}'), 0.0)
    assert buffer.error_seen
    assert datas(buffer.take(0.0)) == [content("a"), content("b"), b'{"error":{"code":"429"}}']
    buffer.finish(0.0)
    assert isinstance(buffer.failure, EngineAnswered)
    assert buffer.failure.status == 429


def test_done_alone_is_no_answer() -> None:
    """Case H28 c."""
    buffer = TokenBuffer()
    buffer.feed(b": keep-alive\n\n" + wire(DONE), 0.0)
    assert (buffer.complete, buffer.has_event) == (True, False)
    assert not buffer.ready(0.0)
    buffer.finish(0.0)
    assert isinstance(buffer.failure, EngineTruncated)
    (event,) = datas(buffer.take(0.0))
    assert code(event) == "engine_truncated"


def test_nothing_at_all_is_no_answer() -> None:
    out, buffer = relayed(b"")
    assert code(out[-1]) == "engine_truncated"
    assert isinstance(buffer.failure, EngineTruncated)


def test_a_done_without_finish_passes_and_the_answer_is_not_whole() -> None:
    """Case H24: nothing is invented."""
    out, buffer = relayed(wire(role(), content("a"), DONE))
    assert out == [role(), content("a"), DONE]
    assert isinstance(buffer.failure, EngineTruncated)


def test_a_finish_that_is_said_twice_leaves_once() -> None:
    """Case H24."""
    text_and_end = finish("length", delta={"content": "c"})
    for first, second in ((finish("tool_calls"),) * 2, (text_and_end, finish("length"))):
        out, buffer = relayed(wire(content("a"), first, second, DONE))
        assert out == [content("a"), first, DONE]
        assert buffer.failure is None


def test_a_second_finish_that_says_something_else_passes() -> None:
    """Case H24."""
    for second in (
        finish("length"),
        finish("stop", delta={"content": "x"}),
        finish(top={"usage": {"completion_tokens": 1}}),
    ):
        out, _ = relayed(wire(content("a"), finish("stop"), second, DONE))
        assert out == [content("a"), finish("stop"), second, DONE]


def test_an_empty_finish_reason_is_no_finish() -> None:
    """Case H24."""
    events = [chunk({"content": letter}, finish="") for letter in "abc"]
    out, buffer = relayed(wire(*events))
    assert out[:-1] == [events[0], chunk({"content": "bc"}, finish="")]
    assert isinstance(buffer.failure, EngineTruncated)


def test_text_in_the_chunk_that_finishes_leaves_after_the_text_before_and_with_the_finish() -> None:
    """Case H17."""
    last = finish("length", delta={"content": "c"})
    out, _ = relayed(wire(content("s"), content("a"), content("b"), last, usage_only(3, 3), DONE))
    assert out == [content("s"), content("ab"), last, usage_only(3, 3), DONE]


def test_a_choice_that_finishes_leaves_the_other_one_its_text() -> None:
    """Case H17."""
    events = [
        content("a", 0),
        content("b", 1),
        content("c", 1),
        finish(index=1),
        content("d", 0),
        finish(index=0),
        DONE,
    ]
    out, buffer = relayed(wire(*events))
    assert assemble(out) == assemble(events)
    assert buffer.failure is None


def test_an_answer_that_ended_in_reasoning_keeps_its_null_content() -> None:
    """Case H32."""
    events = [chunk({"content": None, "reasoning": letter}) for letter in "abcd"]
    out, buffer = relayed(wire(*events, finish("length"), DONE))
    assert out == [events[0], chunk({"content": None, "reasoning": "bcd"}), finish("length"), DONE]
    assert buffer.failure is None


def test_what_comes_after_done_is_dropped() -> None:
    out, buffer = relayed(wire(content("a"), finish(), DONE, b"<html>", content("b")))
    assert out == [content("a"), finish(), DONE]
    assert buffer.failure is None


class TestTypedStreams:
    """Responses and messages: named events."""

    def test_the_terminal_event_completes_the_answer_and_no_done_is_added(self) -> None:
        """Case H29."""
        for name in ("response.completed", "response.incomplete", "message_stop"):
            stream = b"event: " + name.encode() + b"\ndata: " + dump({"type": name}) + b"\n\n"
            buffer = TokenBuffer(strategy="passthrough", dialect="responses")
            buffer.feed(stream, 0.0)
            assert buffer.complete
            buffer.finish(0.0)
            assert buffer.take(0.0) == stream
            assert buffer.failure is None

    @pytest.mark.parametrize("error", [None, EngineStalled("silence")])
    def test_a_stream_without_terminal_event_ends_with_an_error_event(self, error: EngineError | None) -> None:
        """Case H29."""
        stream = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n'
        buffer = TokenBuffer(strategy="passthrough", dialect="responses")
        buffer.feed(stream, 0.0)
        buffer.finish(0.0, error)
        first, (data, name) = unwire(buffer.take(0.0))
        assert first[1] == b"response.output_text.delta"
        assert name == b"error"
        assert json.loads(data)["type"] == "error"
        assert json.loads(data)["error"]["code"] in {"engine_truncated", "engine_timeout"}

    @pytest.mark.parametrize(
        "event",
        [b'event: error\ndata: {"type":"error","error":{"type":"x"}}\n\n', b'data: {"type":"response.failed"}\n\n'],
    )
    def test_an_engines_own_error_is_terminal_and_no_other_is_added(self, event: bytes) -> None:
        """Case H28."""
        buffer = TokenBuffer(strategy="passthrough", dialect="responses")
        buffer.feed(event, 0.0)
        buffer.finish(0.0)
        assert buffer.take(0.0) == event
        assert buffer.error_seen
        assert buffer.opening_error is not None
        assert isinstance(buffer.failure, EngineAnswered)

    def test_usage_is_read_where_each_family_has_it(self) -> None:
        cases = (
            [{"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 7}}}],
            [
                {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 0}}},
                {"type": "message_delta", "usage": {"output_tokens": 7}},
            ],
        )
        for events in cases:
            buffer = TokenBuffer(strategy="passthrough", dialect="responses")
            buffer.feed(wire(*map(dump, events)), 0.0)
            assert (buffer.stats.prompt_tokens, buffer.stats.completion_tokens) == (5, 7)
