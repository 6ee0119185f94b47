"""Usage that the gateway asked for and the client did not. Recorded streams of vLLM with and without it."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admission.choice import LaneNames
from gateway.buffer import TokenBuffer
from gateway.call import Call, read_call
from gateway.errors import EngineBroke
from gateway.keys import Key, Rights, mint
from tests.traces.script import DONE, assemble, body_of, content, cut, datas, finish, role, traces, usage_only, wire

PRINT = re.compile(rb'"system_fingerprint":"[^"]+"')
WITH_USAGE = [
    name
    for name in traces("/v1/chat/completions", "/v1/completions")
    if b'"choices":[],"usage"' in body_of(name) and b'}],"usage"' not in body_of(name)
]


def relayed(stream: bytes, *, size: int = 10**6, strategy: str = "passthrough") -> tuple[bytes, TokenBuffer]:
    buffer = TokenBuffer(strategy=strategy, hide_usage=True)
    out, now = b"", 0.0
    for piece in cut(stream, size):
        now += 0.003
        buffer.feed(piece, now)
        out += buffer.take(now)
    buffer.finish(now)
    return out + buffer.take(now), buffer


def as_unasked(stream: bytes) -> bytes:
    """The same stream as vLLM sends it to a client that asks for no usage, by its own rule."""
    kept = []
    (fingerprint,) = PRINT.findall(stream)
    for data in datas(stream):
        if b'"choices":[],"usage"' in data:
            continue
        ends = re.search(rb'"finish_reason":"', data)
        kept.append(data[:-1] + b"," + fingerprint + b"}" if ends else data)
    return wire(*kept)


def by_choice(stream: bytes) -> dict[bytes, list[bytes]]:
    """The events of each choice, in order; between choices there is no order."""
    found: dict[bytes, list[bytes]] = {}
    for data in datas(stream):
        found.setdefault(b"".join(re.findall(rb'"index":[0-9]+', data)[:1]), []).append(data)
    return found


@pytest.mark.parametrize("name", WITH_USAGE)
def test_what_is_left_is_what_the_engine_sends_to_who_asks_for_nothing(name: str) -> None:
    """Case H21."""
    out, buffer = relayed(body_of(name))
    assert by_choice(out) == by_choice(as_unasked(body_of(name)))
    assert buffer.stats.prompt_tokens is not None
    assert buffer.stats.completion_tokens is not None


def test_there_are_recordings_of_chat_completions_and_several_choices() -> None:
    assert {"chat_stream_include_usage", "completions_stream_include_usage", "chat_stream_n2"} <= set(WITH_USAGE)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WITH_USAGE), st.integers(1, 700), st.sampled_from(["window", "window-json"]))
def test_however_it_comes_the_client_reads_the_same(name: str, size: int, strategy: str) -> None:
    out, _ = relayed(body_of(name), size=size, strategy=strategy)
    assert assemble(datas(out)) == assemble(datas(as_unasked(body_of(name))))


def test_a_stream_that_is_whole_already_is_not_touched() -> None:
    stream = body_of("chat_stream_basic")
    assert relayed(stream)[0] == stream


def test_an_engine_that_states_usage_unasked_is_left_alone() -> None:
    stream = body_of("force_include_usage_stream")
    assert relayed(stream)[0] == wire(*datas(stream))


def test_a_held_finish_leaves_as_it_came_when_the_stream_dies() -> None:
    events = [role(), content("a"), finish()]
    out, buffer = relayed(wire(*events))
    assert datas(out) == [*events, DONE]
    assert buffer.failure is None
    broken = TokenBuffer(hide_usage=True)
    broken.feed(wire(role(0), role(1), content("a", 0), finish(index=0)), 0.0)
    broken.finish(0.0, EngineBroke("cut"))
    *said, error = datas(broken.take(0.0))
    assert finish(index=0) in said
    assert json.loads(error)["error"]["message"] == "cut"


def test_a_usage_without_a_fingerprint_lets_the_finish_go() -> None:
    out, buffer = relayed(wire(role(), content("a"), finish(), usage_only(3, 1), DONE))
    assert datas(out) == [role(), content("a"), finish(), DONE]
    assert (buffer.stats.prompt_tokens, buffer.stats.completion_tokens) == (3, 1)


def call(body: str, *, tokens: int | None = 1000, endpoint: str = "/v1/chat/completions") -> Call:
    key: Key = mint("k", Rights(tokens_per_minute=tokens), 0.0)[0]
    lanes = LaneNames(("lowlatency", "batch"), "lowlatency", "batch")
    return read_call(endpoint, body.encode(), {}, lanes=lanes, default="lowlatency", request_id="r", key=key)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (
            '{"stream":true,"temperature":1.0}',
            '{"stream":true,"temperature":1.0,"stream_options":{"include_usage":true}}',
        ),
        ('{"stream":true,"stream_options":null}', '{"stream":true,"stream_options":{"include_usage":true}}'),
        (
            '{"stream":true,"stream_options":{"include_usage":false,"x":1}}',
            '{"stream":true,"stream_options":{"include_usage":true,"x":1}}',
        ),
        (
            '{"stream":true,"stream_options":{"continuous_usage_stats":true}}',
            '{"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":true}}',
        ),
    ],
)
def test_usage_is_asked_for_and_every_other_byte_stays(asked: str, sent: str) -> None:
    """Case H21."""
    read = call(asked)
    assert read.body.decode() == sent
    assert read.hides_usage


@pytest.mark.parametrize(
    "body",
    [
        '{"stream":true,"stream_options":{"include_usage":true}}',
        '{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}',
        '{"stream":true,"stream_options":"nonsense"}',
        '{"stream":false}',
        "{}",
    ],
)
def test_a_client_that_asks_itself_or_does_not_stream_is_left_alone(body: str) -> None:
    assert (call(body).body.decode(), call(body).hides_usage) == (body, False)


def test_only_a_key_with_a_token_limit_needs_it_and_only_where_usage_has_to_be_asked_for() -> None:
    assert not call('{"stream":true}', tokens=None).hides_usage
    assert not call('{"stream":true}', endpoint="/v1/messages").hides_usage
