"""A client that leaves stops the engine's work, wherever the request is."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.e2e.vllm.conftest import Engine, until_running

pytestmark = pytest.mark.vllm

PATIENCE = 2.0
"""Seconds after which the engine must have forgotten a client that left."""
STEP = 20.0
"""Seconds that a step of the engine may take with a long prompt in it (1 to 5 were seen); it hears nothing meanwhile."""
WORDS = 1000
"""Words, and about as many tokens, of a long prompt: a step holds no more than two of them."""
LONG = {"model": "smollm2", "max_tokens": 1500, "ignore_eos": True}
"""An answer that takes the engine half a minute and more."""


@contextmanager
def asked(gateway: str, **body: Any) -> Iterator[http.client.HTTPConnection]:
    """A chat that was sent; the connection is closed at the end of the block, which is how a client leaves."""
    connection = http.client.HTTPConnection(urlsplit(gateway).netloc, timeout=60)
    headers = {"Content-Type": "application/json", "X-Tokenlane-Lane": "batch"}
    connection.request("POST", "/v1/chat/completions", json.dumps(LONG | body), headers)
    try:
        yield connection
    finally:
        connection.close()


def assert_forgotten(engine: Engine) -> None:
    until_running(engine, [0], PATIENCE)
    generated = engine.metric("vllm:generation_tokens_total")
    time.sleep(0.5)
    assert engine.metric("vllm:generation_tokens_total") == generated


def message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_a_client_that_leaves_mid_stream_stops_the_engine(gateway: str, engines: dict[str, Engine]) -> None:
    engine = engines["batch"]
    with asked(gateway, messages=message("Tell me a story."), stream=True) as connection:
        answer = connection.getresponse()
        for _ in range(20):
            assert answer.readline()
        until_running(engine, [1], PATIENCE)
        answer.close()
    assert_forgotten(engine)


def test_a_client_that_leaves_before_an_answer_in_one_piece_stops_the_engine(
    gateway: str, engines: dict[str, Engine]
) -> None:
    engine = engines["batch"]
    with asked(gateway, messages=message("Tell me a story.")):
        until_running(engine, [1], 10)
    assert_forgotten(engine)


@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_leave_during_the_prefill_stop_the_engine(
    gateway: str, engines: dict[str, Engine], stream: bool
) -> None:
    engine = engines["batch"]
    before = engine.metric("vllm:prompt_tokens_total")
    # none begins like another, of this run or of one before, so that nothing is cached
    prompts = [message(f"{uuid4()} " + "word " * WORDS) for _ in range(8)]
    with ExitStack() as clients:
        for prompt in prompts:
            clients.enter_context(asked(gateway, messages=prompt, stream=stream, max_tokens=900))
        until_running(engine, range(1, 9), STEP)  # it says so after its first step: most prompts are not read yet
    until_running(engine, [0], STEP + PATIENCE)
    assert engine.metric("vllm:prompt_tokens_total") - before < len(prompts) * WORDS


def test_the_engine_forgets_many_clients_that_leave_at_once(gateway: str, engines: dict[str, Engine]) -> None:
    engine = engines["batch"]
    with ExitStack() as clients:
        for number in range(8):
            clients.enter_context(asked(gateway, messages=message(f"Story {number}."), stream=True))
        until_running(engine, [8], 10)
    assert_forgotten(engine)
