"""The official client through the gateway: every kind of answer, the same as from the engine itself."""

import json
import re
from typing import Any

import pytest
from openai import AsyncOpenAI

from app.sim import SimEngine, SimSettings
from tests.fakes.assembly import assembled
from tests.fakes.running_gateway import RunningGateway, asked, gateway_on_sim, running_gateway, settings_for

MODEL = "gpt-oss-20b"
MESSAGES: Any = [{"role": "user", "content": "hi"}]
WEATHER: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]

REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "usage": {"stream_options": {"include_usage": True}},
    "continuous usage": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "two choices": {"n": 2, "temperature": 1},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "tools": {"tools": WEATHER, "tool_choice": "required"},
    "a named tool": {"tools": WEATHER, "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
    "token ids": {"extra_body": {"return_token_ids": True}},
    "reasoning": {"extra_headers": {"x-sim-reasoning": "9"}},
    "unicode": {"extra_headers": {"x-sim-script": "unicode"}},
    "two tools": {"extra_headers": {"x-sim-script": "two_tools"}},
    "stream interval": {"extra_body": {"stream_interval": 5}},
    "one token": {"max_tokens": 1},
    "stop": {"stop": ["engine"]},
    "crlf": {"extra_headers": {"x-sim-fault": "crlf"}},
    "one byte a write": {"extra_headers": {"x-sim-fault": "one_byte"}, "max_tokens": 4},
    "comments": {"extra_headers": {"x-sim-fault": "comments"}},
}


async def stream(client: AsyncOpenAI, **more: Any) -> list[Any]:
    answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True, **more)
    return [chunk async for chunk in answer]


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_stream_through_the_gateway_assembles_to_what_the_engine_itself_gives(name: str) -> None:
    """Cases H14 H15 H16 H17 H19 H22 H23 H26 H27 H31, with real sockets and the official client."""
    async with gateway_on_sim() as (gateway, engine):
        async with AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="x") as direct:
            expected = await stream(direct, **REQUESTS[name])
        received = await stream(gateway.openai, **REQUESTS[name])
        assert assembled(received) == assembled(expected)
        assert len(received) <= len(expected)


@pytest.mark.parametrize("name", ["plain", "two choices", "logprobs", "tools", "token ids", "one token"])
async def test_a_whole_answer_is_the_engines_own(name: str) -> None:
    async with gateway_on_sim() as (gateway, engine):
        async with AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="x") as direct:
            expected = await direct.chat.completions.create(model=MODEL, messages=MESSAGES, **REQUESTS[name])
        received = await gateway.openai.chat.completions.create(model=MODEL, messages=MESSAGES, **REQUESTS[name])
        assert without_ids(received) == without_ids(expected)


def without_ids(answer: Any) -> str:
    """The answer as JSON, without what differs from request to request."""
    return re.sub(r'"(id|created)": ?("[^"]*"|\d+)', "", json.dumps(answer.model_dump(exclude_unset=True)))


async def test_completions_are_streamed_and_answered_whole() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        whole = await gateway.openai.completions.create(model=MODEL, prompt="once", max_tokens=9)
        answer = await gateway.openai.completions.create(model=MODEL, prompt="once", max_tokens=9, stream=True)
        text = "".join([chunk.choices[0].text async for chunk in answer])
        assert text == whole.choices[0].text != ""


async def test_the_models_of_all_lanes_are_listed_once_and_marked_as_simulated() -> None:
    """Case H46."""
    async with gateway_on_sim() as (gateway, _engine):
        listed = (await gateway.openai.models.list()).data
        assert [(m.id, m.owned_by) for m in listed] == [(MODEL, "tokenlane-simulator")]


async def test_the_models_of_an_engine_that_is_down_are_left_out() -> None:
    """Case H46."""
    async with SimEngine(SimSettings(model="alive")) as alive, SimEngine(SimSettings(model="dead")) as dead:
        settings = settings_for(dead, alive)
        await dead.close()
        async with running_gateway(settings) as gateway:
            assert [m.id for m in (await gateway.openai.models.list()).data] == ["alive"]


async def test_with_every_engine_down_the_models_are_a_503() -> None:
    async with SimEngine() as dead:
        settings = settings_for(dead)
    async with running_gateway(settings) as gateway:
        answer = await gateway.http.get("/v1/models")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "no_engine"


async def test_embedded_engines_answer_when_none_is_configured() -> None:
    settings = settings_for(
        sim={"ttft_ms": 1, "itl_ms": 0.5}, lanes={"lowlatency": {"engines": []}, "batch": {"engines": []}}
    )
    async with running_gateway(settings) as gateway:
        answer = await gateway.openai.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert answer.choices[0].message.content


LANE_WISHES: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("lowlatency", {}, {}),
    ("batch", {"X-Tokenlane-Lane": "batch"}, {}),
    ("batch", {}, {"service_tier": "flex"}),
    ("lowlatency", {}, {"service_tier": "auto"}),
    ("batch", {}, {"model": f"{MODEL}:batch"}),
    ("lowlatency", {"X-Tokenlane-Lane": "lowlatency"}, {"service_tier": "flex", "model": f"{MODEL}:batch"}),
]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("lane", "headers", "fields"), LANE_WISHES, ids=str)
async def test_a_request_goes_to_the_lane_it_asks_for(
    lane: str, headers: dict[str, str], fields: dict[str, Any], streamed: bool
) -> None:
    async with gateway_on_sim() as (gateway, engine):
        body = {"model": MODEL, "messages": MESSAGES, "stream": streamed, **fields}
        answer = await gateway.http.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["x-tokenlane-lane"] == lane
        sent = json.loads(asked(engine)[-1].body)
        assert sent["model"] == MODEL
        assert "service_tier" not in sent
        if "service_tier" in fields and not streamed:
            assert answer.json()["service_tier"] == {"batch": "flex", "lowlatency": "default"}[lane]


async def test_a_body_reaches_the_engine_byte_for_byte() -> None:
    """Case H44: engine parameters that the gateway has never heard of, and the spelling of numbers."""
    body = (
        b'{ "model":"gpt-oss-20b", "messages":[{"role":"user",'
        b'"content":"\\u00e9\xf0\x9f\x98\x80"}],"max_tokens":2,"top_k":3,'
        b'"seed":9223372036854775807, "temperature":1.0,"zzz":{"a":[1,null,1e-7]}}'
    )
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json; charset=utf-8"}
        )
        assert answer.status_code == 200
        assert asked(engine)[-1].body == body


async def test_the_answer_says_which_way_it_went() -> None:
    async with gateway_on_sim() as (gateway, engine):
        for streamed in (True, False):
            body = {"model": MODEL, "messages": MESSAGES, "stream": streamed}
            answer = await gateway.http.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "mine-1"})
            headers = answer.headers
            assert headers["x-request-id"] == "mine-1"
            assert headers["x-tokenlane-engine"] == "engine-0"
            assert float(headers["openai-processing-ms"]) >= float(headers["x-tokenlane-overhead-ms"]) >= 0
            assert dict(asked(engine)[-1].headers)["x-request-id"] == "mine-1"
            if streamed:
                assert headers["content-type"] == "text/event-stream; charset=utf-8"
                assert headers["cache-control"] == "no-cache"
                assert headers["x-accel-buffering"] == "no"


async def test_an_insane_request_id_is_replaced() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        answer = await gateway.http.get("/health", headers={"X-Request-Id": "a b\tc" + "x" * 200})
        assert len(answer.headers["x-request-id"]) == 32


async def test_a_window_of_one_token_gives_every_event_of_the_engine() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        whole = await stream(gateway.openai, max_tokens=20)
        single = await stream(
            gateway.openai, max_tokens=20, extra_headers={"X-Tokenlane-Buffer": "tokens=1,delay_ms=0"}
        )
        assert len(single) >= 20 > len(whole)


async def test_no_header_of_the_client_but_its_id_reaches_an_engine_that_is_vllm() -> None:
    """Case H11."""
    async with SimEngine() as engine:
        plain = [{"url": engine.url, "name": "plain", "api_key": "engine-key"}]
        settings = settings_for(engine, lanes={"lowlatency": {"engines": plain}})
        async with running_gateway(settings) as gateway:
            await gateway.is_ready()
            secrets = {
                "x-api-key": "client-key",
                "Cookie": "a=client-key",
                "Proxy-Authorization": "client-key",
                "X-Forwarded-For": "1.1.1.1",
                "X-Sim-Tokens": "1",
            }
            await gateway.openai.chat.completions.create(
                model=MODEL, messages=MESSAGES, max_tokens=2, extra_headers=secrets
            )
            sent = dict(asked(engine)[-1].headers)
            assert "client-key" not in str(sent)
            assert sent["authorization"] == "Bearer engine-key"
            assert not sent.keys() & {"cookie", "x-forwarded-for", "x-sim-tokens", "user-agent"}


async def test_without_a_key_of_the_engine_no_authorization_is_sent() -> None:
    """Case H11: not an empty `Bearer ` either."""
    async with gateway_on_sim() as (gateway, engine):
        await gateway.openai.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=2)
        assert "authorization" not in dict(asked(engine)[-1].headers)


async def events_of(gateway: RunningGateway, **headers: str) -> list[str]:
    body = {"model": MODEL, "messages": MESSAGES, "stream": True}
    answer = await gateway.http.post("/v1/chat/completions", json=body, headers=headers)
    return [e for e in answer.text.split("\n\n") if e]


async def test_a_fast_engine_reaches_the_client_in_a_quarter_of_the_events() -> None:
    sim = SimSettings(ttft_ms=5, itl_ms=3, tokens=400)
    async with gateway_on_sim(sim) as (gateway, _engine):
        assert len(await events_of(gateway)) <= 112


async def test_a_slow_engine_is_never_waited_for_in_vain() -> None:
    """Case H18: at 85 ms a token a second one will not come within the window, so each leaves as it comes."""
    async with gateway_on_sim(SimSettings(ttft_ms=5, itl_ms=85, tokens=8)) as (gateway, _engine):
        texts = [
            json.loads(event[6:]) for event in await events_of(gateway) if "content" in event and "finish" in event
        ]
        assert len([t for t in texts if t["choices"][0]["delta"].get("content")]) == 8
        await gateway.settles()
        text = (await gateway.http.get("/metrics")).text
        assert 'reason="delay"' not in text
        assert 'reason="lone"' in text


async def test_metrics_tell_what_happened() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        await stream(gateway.openai, max_tokens=20, stream_options={"include_usage": True})
        await gateway.http.post("/v1/chat/completions", json={"model": "nope", "messages": MESSAGES})
        await gateway.settles()
        text = (await gateway.http.get("/metrics")).text
        ok = 'tokenlane_requests_total{endpoint="/v1/chat/completions",lane="lowlatency",outcome="ok",status="200"} 1.0'
        assert ok in text
        assert 'outcome="client_error",status="404"} 1.0' in text
        assert 'tokenlane_tokens_total{kind="completion",lane="lowlatency"} 20.0' in text
        assert 'tokenlane_ttft_seconds_count{lane="lowlatency"} 1.0' in text
        assert 'tokenlane_flushes_total{lane="lowlatency",reason="first"} 1.0' in text
        assert 'tokenlane_itl_seconds_count{lane="lowlatency"}' in text
        assert 'tokenlane_slots{lane="batch"} 32.0' in text


async def test_health_and_readiness() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        assert (await gateway.http.get("/health")).status_code == 200
        assert (await gateway.http.get("/ready")).json() == {"ready": True, "reasons": []}
        gateway.service.drain()
        refused = await gateway.http.get("/ready")
        assert (refused.status_code, refused.json()["reasons"]) == (503, ["draining"])
        answer = await gateway.http.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_the_assembler_of_these_tests_sees_a_lost_token() -> None:
    class Chunk:
        def __init__(self, text: str) -> None:
            self.text = text

        def model_dump(self, **_: Any) -> dict[str, Any]:
            return {"choices": [{"index": 0, "delta": {"content": self.text}}]}

    assert assembled([Chunk("a"), Chunk("b")]) == assembled([Chunk("ab")]) != assembled([Chunk("a")])
