"""The official client against the simulated engine: what applications do with a vLLM works here as well."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from app.sim import SimEngine, SimSettings

TOOL: Any = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}},
}
ASK: Any = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def client() -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        SimEngine(SimSettings(ttft_ms=1, itl_ms=0.5, tokens=6)) as engine,
        openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="x", max_retries=0) as client,
    ):
        yield client
    assert (engine.running, engine.connections) == (0, 0)


async def test_a_stream_says_what_the_whole_answer_says(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(**ASK)
    stream = await client.chat.completions.create(**ASK, stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == whole.choices[0].message.content == "This is tokenlane's simulated engine."


async def test_the_usage_chunk_is_the_last_and_has_no_choices(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 7
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_two_choices_are_streamed_side_by_side(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(**ASK, n=2, max_tokens=20, stream=True)
    texts = ["", ""]
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts[0] != texts[1]
    whole = await client.chat.completions.create(**ASK, n=2, max_tokens=20)
    assert [choice.message.content for choice in whole.choices] == texts


async def test_a_tool_call_is_assembled_from_its_parts(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(**ASK, tools=[TOOL], tool_choice="required")
    stream = await client.chat.completions.create(**ASK, tools=[TOOL], tool_choice="required", stream=True)
    parts = [call async for chunk in stream for call in chunk.choices[0].delta.tool_calls or ()]
    functions = [part.function for part in parts if part.function is not None]
    assert parts[0].id
    assert functions[0].name == "get_weather"
    assert "".join(function.arguments or "" for function in functions) == '{"city": "Paris"}'
    assert whole.choices[0].finish_reason == "tool_calls"
    assert [call.id for call in whole.choices[0].message.tool_calls or ()] != [parts[0].id]


async def test_logprobs_line_up_with_the_text(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(**ASK, logprobs=True, top_logprobs=3)
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    entries = logprobs.content or []
    assert "".join(entry.token for entry in entries[:-1]) == whole.choices[0].message.content
    assert all(len(entry.top_logprobs) == 3 for entry in entries)
    assert all(one.logprob <= entry.logprob for entry in entries for one in entry.top_logprobs)


async def test_plain_completions_echo_and_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.completions.create(model="gpt-oss-20b", prompt="Say: ", echo=True, max_tokens=3, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "Say: This is tokenlane's"
    whole = await client.completions.create(model="gpt-oss-20b", prompt=["a", "b"], n=2, max_tokens=3)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]


async def test_reasoning_has_a_field_of_its_own(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(**ASK, stream=True, extra_headers={"x-sim-reasoning": "4"})
    fields = [sorted(chunk.choices[0].delta.model_dump(exclude_unset=True)) async for chunk in stream]
    assert fields[:5] == [["content", "role"], *[["reasoning"]] * 4]


async def test_the_models_are_listed(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["gpt-oss-20b"]


async def test_errors_are_the_clients_own_kinds(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await client.chat.completions.create(model="nope", messages=ASK["messages"])
    with pytest.raises(openai.BadRequestError, match="at least 1"):
        await client.chat.completions.create(**ASK, n=0)
    with pytest.raises(openai.APIError, match="EngineCore"):
        async for _ in await client.chat.completions.create(
            **ASK, stream=True, extra_headers={"x-sim-fault": "error_event@2"}
        ):
            pass
