"""What every strategy has to keep: the meaning of each stream, under any cut, window and time.

Recorded streams of vLLM and the buffer in between; both ends are assembled by the tests' own assembler and, for chat, by
OpenAI's client.
"""

import json

import pytest
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from gateway.buffer import STRATEGIES, TokenBuffer, Window
from gateway.errors import EngineAnswered, EngineTruncated
from gateway.telemetry import FlushReason
from tests.traces.script import (
    DONE,
    assemble,
    body_of,
    content,
    cut,
    datas,
    finish,
    reasoning,
    role,
    traces,
    unwire,
    usage_only,
    wire,
)

CHUNKED = traces("/v1/chat/completions", "/v1/completions")
TYPED = traces("/v1/responses", "/v1/messages")
CHAT = traces("/v1/chat/completions")
PLAYS = (  # window, bytes a feed, seconds between two
    (Window(), 97, 0.02),
    (Window(), 300, 0.0001),
    (Window(1, 0.0), 10**6, 0.0),
    (Window(1000, 10.0), 1000, 0.001),
    (Window(3, 0.005), 250, 0.002),
)
SILENT = {"sigterm_midstream", "sigterm_trial_3", "sigterm_trial_4"}  # the engine was killed and said nothing
CUT = {"engine_killed_responses", "sigterm_five_requests_responses", *SILENT}


def relay(buffer: TokenBuffer, pieces: list[bytes], gap: float = 0.01) -> bytes:
    """Plays the shell: feeds a piece each `gap` seconds and takes as soon as something is due."""
    out, now = b"", 0.0
    for number, piece in enumerate(pieces):
        now = number * gap
        wake = buffer.wake_at()
        if wake is not None and wake <= now:
            assert buffer.ready(wake)
            out += buffer.take(wake)
        buffer.feed(piece, now)
        if buffer.ready(now):
            taken = buffer.take(now)
            assert taken
            out += taken
    buffer.finish(now)
    out += buffer.take(now)
    assert buffer.ended
    assert not buffer.ready(now)
    assert buffer.wake_at() is None
    return out


def flushed(buffer: TokenBuffer) -> bytes:
    """What leaves at the latest by its deadline."""
    wake = buffer.wake_at()
    return b"" if wake is None else buffer.take(wake)


def official(events: list[bytes]) -> object:
    state = ChatCompletionStreamState()
    for data in events:
        body = {} if data == DONE else json.loads(data)
        if "choices" in body:
            value = construct_type(type_=ChatCompletionChunk, value=body)
            assert isinstance(value, ChatCompletionChunk)
            state.handle_chunk(value)
    return state.current_completion_snapshot.to_dict()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("trace", CHUNKED)
def test_a_recorded_stream_says_the_same_after_the_buffer(trace: str, strategy: str) -> None:
    """Cases H14, H16, H19, H22, H23, H25, H32."""
    stream = body_of(trace)
    whole = assemble(datas(stream))
    byte_by_byte = [(Window(), 1, 0.0001)] if len(stream) < 3000 else []
    for window, size, gap in [*PLAYS, *byte_by_byte]:
        buffer = TokenBuffer(strategy=strategy, window=window)
        out = datas(relay(buffer, cut(stream, size), gap))
        if trace in SILENT:
            assert json.loads(out.pop())["error"]["code"] == "engine_truncated"
        assert assemble(out) == whole
        assert isinstance(buffer.failure, EngineTruncated | EngineAnswered | None)
        assert (buffer.failure is None) == (trace not in SILENT and b'{"error"' not in stream)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_openais_client_assembles_the_same_with_and_without_the_buffer(strategy: str) -> None:
    """The universal oracle of the cases, field by field."""
    for trace in CHAT:
        events = datas(body_of(trace))
        for window in (Window(), Window(1000, 10.0)):
            pieces = [wire(event) for event in events]
            out = datas(relay(TokenBuffer(strategy=strategy, window=window), pieces))
            if trace not in SILENT and "killed" not in trace:
                assert official(out) == official(events), trace


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("trace", TYPED)
def test_a_stream_of_named_events_is_relayed_as_it_is(trace: str, strategy: str) -> None:
    """Case H29."""
    stream = body_of(trace)
    events = unwire(stream)
    for size in (1, 97, len(stream)):
        buffer = TokenBuffer(strategy=strategy, dialect="messages" if "messages" in trace else "responses")
        out = unwire(relay(buffer, cut(stream, size)))
        if trace in CUT:
            data, name = out.pop()
            assert (name, json.loads(data)["type"]) == (b"error", "error")
            assert isinstance(buffer.failure, EngineTruncated)
        assert out == events
        assert buffer.complete == (trace not in CUT)
        assert (buffer.failure is None) == (trace not in CUT and trace != "engine_killed_messages")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_token_is_counted_once_where_it_leaves(strategy: str) -> None:
    for trace in CHUNKED:
        buffer = TokenBuffer(strategy=strategy)
        out = relay(buffer, cut(body_of(trace), 200))
        stats = buffer.stats
        assert stats.flush_tokens_sum == stats.tokens
        assert sum(stats.flush_tokens) == sum(stats.flushes.values())
        assert stats.events_out == len(datas(out))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_first_text_leaves_at_once(strategy: str) -> None:
    """Case H18."""
    buffer = TokenBuffer(strategy=strategy)
    buffer.feed(wire(role()), 0.0)
    assert buffer.take(0.0) == wire(role())
    buffer.feed(wire(content("a")), 2.0)
    assert buffer.take(2.0) == wire(content("a"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_waits_leaves_before_what_cannot_wait(strategy: str) -> None:
    """Cases H8, H17, H20."""
    for last in (
        finish(),
        usage_only(1, 2),
        DONE,
        content("x", top={"n": 1}),
        reasoning("r"),
        b'{"error":{"code":500}}',
    ):
        buffer = TokenBuffer(strategy=strategy, window=Window(100, 10.0))
        buffer.feed(wire(role(), content("a"), content("b"), content("c"), last), 0.0)
        *before, latest = datas(buffer.take(0.0) + flushed(buffer))
        assert latest == last
        assert assemble(before)["stories"][0][-1] == ["content", "abc"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_that_does_not_read_costs_no_token_and_bounded_memory(strategy: str) -> None:
    """Case H57."""
    buffer = TokenBuffer(strategy=strategy, high_water=5000)
    buffer.feed(wire(role(), content("a")), 0.0)
    sent = buffer.take(0.0)
    buffer.reader_busy = True
    count = 0
    while not buffer.full:
        buffer.feed(wire(content(f"{count} ")), 0.01 * count)
        count += 1
    assert count < 60
    buffer.reader_busy = False
    assert buffer.ready(1.0)
    sent += buffer.take(1.0)
    assert not buffer.full
    assert assemble(datas(sent))["stories"][0][-1][1] == "a" + "".join(f"{number} " for number in range(count))
    buffer.finish(1.0)


def test_nothing_is_held_when_nothing_is_asked_for() -> None:
    buffer = TokenBuffer(strategy="passthrough")
    stream = wire(role(), content("a"), content("b"), finish(), DONE)
    buffer.feed(stream, 0.0)
    assert buffer.take(0.0) == stream
    assert buffer.stats.flushes == {FlushReason.PASS: 2}
