"""`/v1/messages` with Anthropic's official client: answers, streams, and errors in Anthropic's shape."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from app.sim import SimEngine, SimSettings
from tests.fakes.running_gateway import RunningGateway, asked, gateway_on_sim

MODEL = "gpt-oss-20b"
ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
WEATHER: Any = [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]


@asynccontextmanager
async def client_on_sim(
    sim: SimSettings | None = None, **changes: Any
) -> AsyncIterator[tuple[AsyncAnthropic, RunningGateway, SimEngine]]:
    async with (
        gateway_on_sim(sim, **changes) as (gateway, engine),
        AsyncAnthropic(base_url=gateway.url, api_key="client-key", max_retries=0, timeout=30) as client,
    ):
        yield client, gateway, engine


async def test_a_message_is_the_engines_own_whole_and_as_a_stream() -> None:
    async with client_on_sim() as (client, _gateway, engine):
        whole = await client.messages.create(**ASK)
        async with client.messages.stream(**ASK) as stream:
            streamed = await stream.get_final_message()
        assert streamed.content[0].text == whole.content[0].text != ""
        assert streamed.stop_reason == whole.stop_reason == "max_tokens"
        assert whole.usage.output_tokens == streamed.usage.output_tokens == 9
        assert "client-key" not in str([request.headers for request in asked(engine)])


async def test_thoughts_and_calls_of_tools_arrive() -> None:
    async with client_on_sim() as (client, _gateway, _engine):
        headers = {"x-sim-reasoning": "5"}
        async with client.messages.stream(**{**ASK, "max_tokens": 99}, tools=WEATHER, extra_headers=headers) as stream:
            message = await stream.get_final_message()
        assert [block.type for block in message.content] == ["thinking", "tool_use"]
        assert message.stop_reason == "tool_use"


async def test_tokens_are_counted_without_an_answer() -> None:
    async with client_on_sim() as (client, _gateway, _engine):
        counted = await client.messages.count_tokens(model=MODEL, messages=ASK["messages"])
        message = await client.messages.create(**ASK)
        assert counted.input_tokens == message.usage.input_tokens


@pytest.mark.parametrize(
    ("more", "lane"),
    [
        ({"service_tier": "auto"}, "lowlatency"),
        ({"service_tier": "standard_only"}, "lowlatency"),
        ({"model": f"{MODEL}:batch"}, "batch"),
        ({"extra_body": {"service_tier": "flex"}}, "batch"),
        ({"extra_headers": {"x-tokenlane-lane": "batch"}, "service_tier": "auto"}, "batch"),
    ],
)
async def test_a_message_goes_to_the_lane_that_is_asked_for(more: dict[str, Any], lane: str) -> None:
    """Anthropic's own tiers say nothing of a lane and reach the engine; OpenAI's choose one and do not."""
    async with client_on_sim() as (client, _gateway, engine):
        raw = await client.messages.with_raw_response.create(**{**ASK, **more})
        assert raw.headers["x-tokenlane-lane"] == lane
        assert (b"service_tier" in asked(engine)[-1].body) == ("service_tier" in more)


FAULTS: dict[str, tuple[type[anthropic.APIStatusError], int, str]] = {
    "status:400": (anthropic.BadRequestError, 400, "invalid_request_error"),
    "status:401": (anthropic.InternalServerError, 502, "api_error"),
    "status:404": (anthropic.NotFoundError, 404, "not_found_error"),
    "status:429;retry-after=7": (anthropic.RateLimitError, 429, "rate_limit_error"),
    "status:500": (anthropic.InternalServerError, 500, "api_error"),
    "status:503": (anthropic.InternalServerError, 503, "overloaded_error"),
    "status:503;body=html": (anthropic.InternalServerError, 503, "overloaded_error"),
    "close_before_head": (anthropic.InternalServerError, 502, "api_error"),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
async def test_an_engines_error_has_anthropics_shape_and_type(fault: str, streamed: bool) -> None:
    """Case H49, on the endpoints that are Anthropic's."""
    kind, status, name = FAULTS[fault]
    async with client_on_sim() as (client, _gateway, _engine):
        with pytest.raises(kind) as error:
            await client.messages.create(**ASK, stream=streamed, extra_headers={"x-sim-fault": fault})
        assert error.value.status_code == status
        assert is_anthropics(error.value.body, name)
        if "retry-after" in fault:
            assert error.value.response.headers["retry-after"] == "7"


def is_anthropics(body: Any, name: str) -> bool:
    return set(body) == {"type", "error"} and body["type"] == "error" and body["error"]["type"] == name


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "not JSON": ({"content": b"{"}, 400, "invalid_request_error"),
    "no content type": ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 400, "invalid_request_error"),
    "an unknown tier": ({"json": {**ASK, "service_tier": "gold"}}, 400, "invalid_request_error"),
    "too large": ({"content": b" " * 2000}, 413, "request_too_large"),
    "compressed": ({"content": b"{}", "headers": {"content-encoding": "gzip"}}, 415, "invalid_request_error"),
    "unknown model": ({"json": {**ASK, "model": "nope"}}, 404, "not_found_error"),
    "no max_tokens": ({"json": {"model": MODEL, "messages": []}}, 400, "invalid_request_error"),
}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_here_has_anthropics_shape_too(name: str, path: str) -> None:
    """Case H49."""
    request, status, kind = REFUSED[name]
    if path.endswith("count_tokens") and name == "no max_tokens":
        request = {"json": {"model": MODEL}}
    async with client_on_sim(limits={"body_bytes": 1024}) as (_client, gateway, _engine):
        headers = {"content-type": "application/json", **request.get("headers", {})}
        answer = await gateway.http.post(path, **{**request, "headers": headers})
        assert answer.status_code == status
        assert is_anthropics(answer.json(), kind)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "", 405), ("POST", "/nope", 404), ("GET", "/b/c", 404)])
async def test_a_wrong_path_or_method_below_messages_has_anthropics_shape(method: str, path: str, status: int) -> None:
    async with client_on_sim() as (_client, gateway, _engine):
        answer = await gateway.http.request(method, f"/v1/messages{path}")
        assert (answer.status_code, answer.json()["type"]) == (status, "error")


async def test_a_full_lane_is_anthropics_rate_limit_and_a_lane_without_engine_its_overload() -> None:
    lanes = {"lowlatency": {"slots": 1, "queue": 0}}
    async with client_on_sim(SimSettings(ttft_ms=1000), lanes=lanes) as (client, gateway, engine):
        async with gateway.http.stream("POST", "/v1/responses", json={"model": MODEL, "input": "a", "stream": True}):
            with pytest.raises(anthropic.RateLimitError) as full:
                await client.messages.create(**ASK)
        assert is_anthropics(full.value.body, "rate_limit_error")
        assert int(full.value.response.headers["retry-after"]) >= 1
        await gateway.settles()
        await engine.close()
        gateway.service.drain()
        with pytest.raises(anthropic.InternalServerError) as gone:
            await client.messages.create(**ASK)
        assert gone.value.status_code == 503
        assert is_anthropics(gone.value.body, "overloaded_error")


async def test_an_error_within_a_stream_is_raised_by_the_official_client() -> None:
    async with client_on_sim() as (client, _gateway, _engine):
        stream = await client.messages.create(**ASK, stream=True, extra_headers={"x-sim-fault": "cut@3"})
        with pytest.raises(anthropic.APIStatusError) as error:
            async for _ in stream:
                pass
        assert is_anthropics(error.value.body, "api_error")
