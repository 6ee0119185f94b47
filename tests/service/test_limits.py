"""The limits of keys as clients meet them: real uvicorn, real sockets, real counts."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
import pytest

from app.sim import SimSettings
from app.sim.server import Request
from tests.fakes.keys import asks, bearer, chat, kept_in, new_key
from tests.fakes.running_gateway import RunningGateway, asked, gateway_on_sim

QUICK = SimSettings(ttft_ms=1, itl_ms=0.2, tokens=8)
SLOW = SimSettings(ttft_ms=2, itl_ms=20, tokens=200)


def most_at_once(requests: Iterable[Request]) -> int:
    """The most answers that an engine was at at the same time."""
    moments = [(r.received_at, 1) for r in requests] + [(r.closed_at, -1) for r in requests if r.closed_at is not None]
    now = most = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


async def counted(gateway: RunningGateway, kind: str, key_id: str) -> int:
    """What is counted of a key now."""
    counters = await gateway.service.quotas._own()
    return (await counters.windows.look(f"tokenlane/{kind}/{key_id}", 1)).used


async def settled(gateway: RunningGateway) -> None:
    """Waits until no request of any key holds a place."""
    await gateway.settles()
    counters: Any = await gateway.service.quotas._own()
    async with asyncio.timeout(5):
        while counters.running:  # noqa: ASYNC110 - who should tell?
            await asyncio.sleep(0.01)


async def left_after(gateway: RunningGateway, secret: str, events: int, **more: Any) -> int:
    """Leaves a stream after some events; returns how many had come."""
    seen = 0
    async with gateway.http.stream(
        "POST", "/v1/chat/completions", json=chat(stream=True, **more), headers=bearer(secret)
    ) as answer:
        async for line in answer.aiter_lines():
            seen += line.startswith("data:")
            if seen >= events:
                break
    return seen


@pytest.mark.parametrize("stream", [True, False])
async def test_sixty_four_clients_of_a_key_with_four_places_are_never_more_than_four_at_the_engine(
    tmp_path: Path, stream: bool
) -> None:
    """Cases H3, H62."""
    _, secret = await new_key(tmp_path, parallel=4)
    async with gateway_on_sim(SimSettings(ttft_ms=20, itl_ms=1, tokens=20), **kept_in(tmp_path)) as (gateway, engine):
        answers = await asyncio.gather(*(asks(gateway.http, secret, stream=stream) for _ in range(64)))
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= 4
        assert most_at_once(asked(engine)) <= 4
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert refused.headers["retry-after"] == "1"
        await settled(gateway)
        assert [(await asks(gateway.http, secret)).status_code for _ in range(4)] == [200] * 4


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"x-sim-fault": "status:400"},
        {"x-sim-fault": "status:500"},
        {"x-sim-fault": "garbage@2"},
        {"x-sim-fault": "reset@2"},
        {"leaves": "1"},
        {"leaves": "0"},
        {"body": "{"},
        {"model": "unknown"},
    ],
    ids=str,
)
async def test_places_come_back_whichever_way_a_request_ends(tmp_path: Path, way: dict[str, str]) -> None:
    """Case H3."""
    _, secret = await new_key(tmp_path, parallel=2)
    async with gateway_on_sim(SLOW if "leaves" in way else QUICK, **kept_in(tmp_path)) as (gateway, _):
        for _ in range(10):
            if "leaves" in way:
                await left_after(gateway, secret, int(way["leaves"]))
            else:
                headers = {**bearer(secret), "content-type": "application/json", **way}
                content = way.get("body")
                asking = chat(stream=True, model=way.get("model", "gpt-oss-20b"))
                await gateway.http.post(
                    "/v1/chat/completions", headers=headers, **({"content": content} if content else {"json": asking})
                )
            await settled(gateway)
        assert (await asks(gateway.http, secret, max_tokens=2)).status_code in {200, 503}


async def test_the_headers_tell_what_is_left_and_the_official_client_reads_the_refusal(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, requests_per_minute=2, tokens_per_minute=100_000)
    async with gateway_on_sim(QUICK, **kept_in(tmp_path)) as (gateway, _):
        first = await asks(gateway.http, secret)
        used = first.json()["usage"]["total_tokens"]
        second = await asks(gateway.http, secret, stream=True)
        assert first.headers["x-ratelimit-limit-requests"] == "2"
        assert [a.headers["x-ratelimit-remaining-requests"] for a in (first, second)] == ["1", "0"]
        assert second.headers["x-ratelimit-remaining-tokens"] == str(100_000 - used)
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=secret, max_retries=0) as client:
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(**chat())
        assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60
        assert caught.value.response.headers["x-ratelimit-remaining-requests"] == "0"


async def test_what_a_lane_or_an_engine_has_no_room_for_costs_nothing(tmp_path: Path) -> None:
    key, secret = await new_key(tmp_path, requests_per_minute=3)
    lanes = {"lowlatency": {"slots": 1, "queue": 0}}
    async with gateway_on_sim(SLOW, **kept_in(tmp_path), lanes=lanes) as (gateway, _):
        holding = asyncio.create_task(left_after(gateway, secret, 30))
        async with asyncio.timeout(5):
            while not gateway.held()["slots"]:  # noqa: ASYNC110 - who should tell?
                await asyncio.sleep(0.01)
        for _ in range(5):
            assert (await asks(gateway.http, secret)).json()["error"]["code"] == "lane_full"
        await holding
        await settled(gateway)
        assert await counted(gateway, "requests", key.id) == 1
        busy = {**bearer(secret), "x-sim-fault": "status:429"}
        assert (await gateway.http.post("/v1/chat/completions", json=chat(), headers=busy)).status_code == 429
        assert await counted(gateway, "requests", key.id) == 1


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (None, False),
        ({"include_usage": True}, True),
        ({"include_usage": False}, False),
        ({"continuous_usage_stats": True}, False),
    ],
    ids=str,
)
async def test_tokens_are_exact_and_a_client_sees_usage_only_if_it_asks(
    tmp_path: Path, options: dict[str, bool] | None, shown: bool
) -> None:
    """Cases H21, H22."""
    key, secret = await new_key(tmp_path, tokens_per_minute=100_000)
    more = {} if options is None else {"stream_options": options}
    async with gateway_on_sim(QUICK, **kept_in(tmp_path)) as (gateway, _):
        whole = (await asks(gateway.http, secret)).json()["usage"]["total_tokens"]
        streamed = await asks(gateway.http, secret, stream=True, **more)
        assert ('"usage":{' in streamed.text) is shown
        assert ('"choices":[]' in streamed.text) is shown
        assert streamed.text.count("system_fingerprint") == 1
        await settled(gateway)
        assert await counted(gateway, "tokens", key.id) == 2 * whole


async def test_the_stream_of_a_key_with_a_token_limit_is_the_one_of_a_key_without(tmp_path: Path) -> None:
    _, bound = await new_key(tmp_path, "bound", tokens_per_minute=100_000)
    _, free = await new_key(tmp_path, "free")

    def shape(text: str) -> list[str]:
        return [line.partition('"choices"')[2] for line in text.splitlines() if line.startswith("data: {")]

    async with gateway_on_sim(
        QUICK, **kept_in(tmp_path), lanes={"lowlatency": {"buffer": {"strategy": "passthrough"}}}
    ) as (
        gateway,
        _,
    ):
        seeded = {"x-sim-seed": "7"}
        texts = []
        for secret in (bound, free):
            answer = await gateway.http.post(
                "/v1/chat/completions", json=chat(stream=True), headers=bearer(secret) | seeded
            )
            texts.append(shape(answer.text))
        assert texts[0] == texts[1]


async def test_a_stream_that_its_client_left_is_charged_by_what_was_streamed(tmp_path: Path) -> None:
    """Case H63."""
    key, secret = await new_key(tmp_path, tokens_per_minute=100_000)
    lanes = {"lowlatency": {"buffer": {"strategy": "passthrough"}}}
    async with gateway_on_sim(SimSettings(ttft_ms=2, itl_ms=5, tokens=2000), **kept_in(tmp_path), lanes=lanes) as (
        gateway,
        _,
    ):
        seen = await left_after(gateway, secret, 41)
        await settled(gateway)
        assert seen - 1 - 4 <= await counted(gateway, "tokens", key.id) <= seen + 20, "the first event holds no text"


async def test_a_key_whose_tokens_are_spent_waits_for_the_next_window(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, tokens_per_minute=5)
    async with gateway_on_sim(QUICK, **kept_in(tmp_path)) as (gateway, engine):
        assert (await asks(gateway.http, secret)).status_code == 200
        await settled(gateway)
        refused = await asks(gateway.http, secret)
        assert refused.status_code == 429
        assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
        assert "tokens a minute" in refused.json()["error"]["message"]
        assert len(asked(engine)) == 1
        metrics = (await gateway.http.get("/metrics", headers=bearer(secret))).text
        assert 'tokenlane_key_refusals_total{reason="tokens"} 1.0' in metrics


async def test_a_key_without_limits_is_counted_nowhere(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path)
    async with gateway_on_sim(QUICK, **kept_in(tmp_path)) as (gateway, _):
        answer = await asks(gateway.http, secret)
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
