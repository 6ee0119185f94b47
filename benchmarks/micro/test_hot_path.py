"""What a token costs in this program, piece by piece: `make bench-micro`.

Figures are for comparing two versions on one machine in one run; no test asserts them.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.micro.crowd import STREAMS as CROWD
from benchmarks.micro.crowd import crowd
from benchmarks.micro.flow import TOKENS as READ
from benchmarks.micro.flow import chunk, flow
from gateway.buffer import TokenBuffer, Window
from gateway.errors import EngineBroke
from gateway.wire import render
from gateway.wire.request import edit, read_object
from gateway.wire.sse import SseDecoder

TOKENS = 1000


def entry(text: str) -> dict[str, Any]:
    top = [{"token": text, "logprob": -0.5, "bytes": list(text.encode())}]
    return {"content": [{"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": top}]}


STREAMS = {
    "plain": [chunk({"content": f" word{n}"}) for n in range(TOKENS)],
    "logprobs": [chunk({"content": f" word{n}"}, logprobs=entry(f" word{n}")) for n in range(TOKENS)],
    "token ids": [chunk({"content": f" word{n}"}, token_ids=[n]) for n in range(TOKENS)],
    "arguments": [
        chunk({"content": None, "tool_calls": [{"index": 0, "function": {"arguments": f"{n},"}}]})
        for n in range(TOKENS)
    ],
}


def drained(pieces: list[bytes], gap: float, strategy: str = "window") -> int:
    buffer = TokenBuffer(strategy=strategy, window=Window(4, 0.04))
    now, size = 0.0, 0
    for piece in pieces:
        now += gap
        buffer.feed(piece, now)
        if buffer.ready(now):
            size += len(buffer.take(now))
    buffer.finish(now)
    return size + len(buffer.take(now))


@pytest.mark.parametrize("kind", STREAMS)
def test_buffer_one_event_a_piece(benchmark: BenchmarkFixture, kind: str) -> None:
    benchmark.extra_info["tokens"] = TOKENS
    assert benchmark(drained, STREAMS[kind], 0.003)


@pytest.mark.parametrize("events", [2, 4, 16])
def test_buffer_several_events_a_piece(benchmark: BenchmarkFixture, events: int) -> None:
    plain = STREAMS["plain"]
    pieces = [b"".join(plain[at : at + events]) for at in range(0, TOKENS, events)]
    assert benchmark(drained, pieces, 0.003 * events)


def test_buffer_that_holds_nothing(benchmark: BenchmarkFixture) -> None:
    assert benchmark(drained, STREAMS["plain"], 0.003, "passthrough")


def test_decoder(benchmark: BenchmarkFixture) -> None:
    def run() -> int:
        decoder = SseDecoder()
        return sum(len(decoder.feed(piece)) for piece in STREAMS["plain"])

    assert benchmark(run) == TOKENS


def test_decoder_of_one_large_event(benchmark: BenchmarkFixture) -> None:
    event = b"data: " + b"x" * 2**21 + b"\n\n"
    pieces = [event[at : at + 16384] for at in range(0, len(event), 16384)]

    def run() -> int:
        decoder = SseDecoder()
        return sum(len(decoder.feed(piece)) for piece in pieces)

    assert benchmark(run) == 1


BODY = json.dumps(
    {"model": "m:batch", "messages": [{"role": "user", "content": "word " * 500}], "stream": True}
).encode()
REQUEST_STEPS: dict[str, Callable[[], object]] = {
    "read": lambda: read_object(BODY),
    "edit": lambda: edit(BODY, {"model": "m"}),
    "render": lambda: render.answer(EngineBroke("The connection broke.")),
}


@pytest.mark.parametrize("step", REQUEST_STEPS)
def test_request(benchmark: BenchmarkFixture, step: str) -> None:
    assert benchmark(REQUEST_STEPS[step])


def test_flush_of_two_tokens_from_connection_to_connection(benchmark: BenchmarkFixture) -> None:
    with flow() as made:
        writes, tokens = made.client.writes, made.buffer.stats.tokens
        benchmark(made.step)
        assert made.buffer.stats.tokens - tokens == READ * (made.client.writes - writes)


def test_round_of_a_crowd(benchmark: BenchmarkFixture) -> None:
    with crowd() as made:
        reads = made.reads
        benchmark(made.step)
        assert made.reads > reads
        assert (made.reads - reads) % CROWD == 0
