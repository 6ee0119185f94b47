"""What the official client gets from real vLLM through the gateway is what it gets from the engine itself."""

import json
import subprocess
from typing import Any

import pytest
from openai import OpenAI

from tests.e2e.vllm.conftest import Engine

pytestmark = pytest.mark.vllm

LANES = ("lowlatency", "batch")
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Oslo"]}}, "required": ["city"]},
    },
}
OWN = {"id", "created"}
"""What differs between two answers to the same request."""

CHATS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cut by length": {"max_tokens": 5},
    "one token": {"max_tokens": 1},
    "a stop string": {"stop": ["capital"]},
    "usage": {"stream_options": {"include_usage": True}},
    "usage in each chunk": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "logprobs": {"logprobs": True, "top_logprobs": 3},
    "two choices": {"n": 2, "temperature": 1.0, "seed": 7},
    "token ids": {"extra_body": {"return_token_ids": True}},
    "a named tool": {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    "a required tool": {"tools": [WEATHER], "tool_choice": "required"},
    "tools that it need not use": {"tools": [WEATHER], "tool_choice": "auto"},
    "JSON": {"response_format": {"type": "json_object"}},
    "characters of many tokens": {"extra_body": {"structured_outputs": {"choice": ["naïve 日本語 🙂👩‍🚀 ok"]}}},
}


def request(**more: Any) -> dict[str, Any]:
    return {"model": "smollm2", "messages": FRANCE, "temperature": 0, "max_tokens": 48, **more}


def streamed(client: OpenAI, **more: Any) -> dict[str, Any]:
    """The answer as the client's own accumulator puts it together from a stream."""
    with client.chat.completions.stream(**request(**more)) as stream:
        for _ in stream:
            pass
        return without_call_ids(stream.current_completion_snapshot.model_dump(exclude=OWN))


def whole(client: OpenAI, **more: Any) -> dict[str, Any]:
    return without_call_ids(client.chat.completions.create(**request(**more)).model_dump(exclude=OWN))


def without_call_ids(answer: dict[str, Any]) -> dict[str, Any]:
    """Tool calls get a random id each time."""
    for choice in answer["choices"]:
        for call in choice["message"].get("tool_calls") or []:
            assert call.pop("id")
    return answer


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("more", CHATS.values(), ids=CHATS.keys())
def test_a_stream_through_the_gateway_assembles_to_what_the_engine_sent(
    client: OpenAI, engines: dict[str, Engine], more: dict[str, Any], lane: str
) -> None:
    direct = streamed(engines[lane].client(), **more)

    assert streamed(client.with_options(default_headers={"X-Tokenlane-Lane": lane}), **more) == direct
    assert all(choice["finish_reason"] for choice in direct["choices"])


def test_a_patient_lane_loses_no_token_id(client: OpenAI, engines: dict[str, Engine]) -> None:
    def ids(source: OpenAI) -> list[int]:
        asked = request(stream=True, extra_body={"return_token_ids": True}, extra_headers={"X-Tokenlane-Lane": "batch"})
        choices = [choice for chunk in source.chat.completions.create(**asked) for choice in chunk.choices]
        return [token for choice in choices for token in getattr(choice, "token_ids", None) or []]

    assert ids(client) == ids(engines["batch"].client()) != []


def test_a_patient_lane_sends_fewer_events_than_the_engine_says_tokens(client: OpenAI) -> None:
    asked = request(stream=True, max_tokens=64, stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    chunks = list(client.chat.completions.create(**asked, extra_headers={"X-Tokenlane-Lane": "batch"}))

    assert chunks[-1].usage.completion_tokens == 64
    assert len(chunks) < 40


@pytest.mark.parametrize("name", [name for name in CHATS if not name.startswith("usage")])
def test_an_answer_in_one_piece_is_the_engine_s_own(client: OpenAI, engines: dict[str, Engine], name: str) -> None:
    assert whole(client, **CHATS[name]) == whole(engines["lowlatency"].client(), **CHATS[name])


def test_a_text_completion_streams_what_the_engine_sent(client: OpenAI, engines: dict[str, Engine]) -> None:
    def pieces(source: OpenAI) -> list[Any]:
        asked: dict[str, Any] = {"prompt": ["One two three", "The sea"], "max_tokens": 12, "temperature": 0}
        asked |= {"logprobs": 2, "stream_options": {"include_usage": True}, "extra_body": {"ignore_eos": True}}
        return list(source.completions.create(model="smollm2", stream=True, **asked))

    def text(chunks: list[Any], index: int) -> str:
        return "".join(choice.text for chunk in chunks for choice in chunk.choices if choice.index == index)

    def tokens(chunks: list[Any], index: int) -> list[str]:
        choices = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        return [token for choice in choices if choice.logprobs for token in choice.logprobs.tokens]

    direct, through = pieces(engines["lowlatency"].client()), pieces(client)
    for index in range(2):
        assert text(through, index) == text(direct, index) != ""
        assert tokens(through, index) == tokens(direct, index)
        assert len(tokens(direct, index)) == 12
    assert through[-1].usage == direct[-1].usage


def test_the_models_are_the_engine_s(client: OpenAI) -> None:
    assert "smollm2" in [model.id for model in client.models.list()]


def test_curl_streams_an_answer(gateway: str) -> None:
    body = json.dumps(request(stream=True, max_tokens=8))
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--noproxy", "*", f"{gateway}/v1/chat/completions"]
    header = ["--header", "Content-Type: application/json"]
    answer = subprocess.run([*command, *header, "--data", body], capture_output=True, text=True, check=True, timeout=60)

    events = [line.removeprefix("data: ") for line in answer.stdout.splitlines() if line]
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas).startswith("The capital of France")
