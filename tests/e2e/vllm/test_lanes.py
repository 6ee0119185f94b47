"""Two lanes, an engine each: who asks for one gets that one's engine, and both work at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.vllm.conftest import Engine, until_running

pytestmark = pytest.mark.vllm

LANES = ("lowlatency", "batch")
SEA: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Tell me about the sea."}]


def ask(client: OpenAI, lane: str, **more: Any) -> Any:
    asked = {"model": "smollm2", "messages": SEA, "extra_headers": {"X-Tokenlane-Lane": lane}, **more}
    return client.chat.completions.with_raw_response.create(**asked)


@pytest.mark.parametrize("lane", LANES)
def test_the_lane_of_the_header_answers_with_its_own_engine(
    client: OpenAI, engines: dict[str, Engine], lane: str
) -> None:
    other = next(name for name in LANES if name != lane)
    for engine in engines.values():
        until_running(engine, [0], 10)  # it may not have forgotten what a test before left
    with ask(client, lane, stream=True, max_tokens=500, extra_body={"ignore_eos": True}).parse() as stream:
        next(stream)
        until_running(engines[lane], [1], 2)
        assert engines[other].running() == 0


@pytest.mark.parametrize("lane", LANES)
def test_an_answer_names_its_lane(client: OpenAI, lane: str) -> None:
    assert ask(client, lane, max_tokens=1).headers["x-tokenlane-lane"] == lane


def test_who_asks_for_no_lane_gets_lowlatency(client: OpenAI) -> None:
    answer = client.chat.completions.with_raw_response.create(model="smollm2", messages=SEA, max_tokens=1)
    assert answer.headers["x-tokenlane-lane"] == "lowlatency"


def test_both_lanes_stream_at_once(
    client: OpenAI, engines: dict[str, Engine], generated: Callable[[str], float]
) -> None:
    before = {lane: generated(lane) for lane in LANES}

    def stream(lane: str) -> tuple[str, int]:
        answer = ask(client, lane, stream=True, max_tokens=60, extra_body={"ignore_eos": True})
        with answer.parse() as chunks:
            finishes = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
        return answer.headers["x-tokenlane-lane"], len(finishes)

    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(stream, LANES * 3))

    assert answers == [(lane, 1) for lane in LANES * 3]
    for lane in LANES:
        assert generated(lane) - before[lane] >= 180


@pytest.fixture
def generated(engines: dict[str, Engine]) -> Callable[[str], float]:
    """Tokens that the engine of a lane has generated since it was started."""
    return lambda lane: engines[lane].metric("vllm:generation_tokens_total")
