"""More requests than slots: they wait, they are told when to come back, and everything is given back."""

import asyncio
import json

import pytest

from app.sim import SimSettings
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim

BODY = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 40}
SIM = SimSettings(ttft_ms=20, itl_ms=5, tokens=40)


async def ask(gateway: RunningGateway, **headers: str) -> tuple[int, str, dict[str, str]]:
    answer = await gateway.http.post("/v1/chat/completions", json=BODY, headers=headers)
    return answer.status_code, answer.text, dict(answer.headers)


async def test_forty_streams_on_thirty_two_slots_all_finish_and_eight_of_them_wait() -> None:
    async with gateway_on_sim(SIM) as (gateway, engine):
        asked = [asyncio.create_task(ask(gateway)) for _ in range(40)]
        await _until(lambda: gateway.held()["waiting"] == 8 and engine.running == 32)
        answers = await asyncio.gather(*asked)
        assert all(status == 200 and text.endswith("data: [DONE]\n\n") for status, text, _ in answers)


async def test_two_hundred_at_once_are_admitted_as_far_as_the_queue_goes_and_the_rest_is_told_when_to_come_back() -> (
    None
):
    """Cases H53 and H54: exactly as many connections as configured, the rest refused at once, in OpenAI's shape."""
    async with gateway_on_sim(SIM, lanes={"lowlatency": {"queue": 64}}) as (gateway, engine):
        answers = await asyncio.gather(*(ask(gateway) for _ in range(200)))
        finished = [a for a in answers if a[0] == 200]
        refused = [a for a in answers if a[0] == 429]
        assert (len(finished), len(refused)) == (96, 104)
        assert all(text.endswith("data: [DONE]\n\n") for _, text, _ in finished)
        for _, text, headers in refused:
            assert int(headers["retry-after"]) >= 1
            assert json.loads(text)["error"]["code"] == "lane_full"
        assert gateway.service.gateway.client.statistics()[engine.url].open <= 32


async def test_a_request_that_waits_too_long_is_told_so() -> None:
    lanes = {"lowlatency": {"pool_size": 1, "patience_s": 0.05}}
    async with gateway_on_sim(SimSettings(ttft_ms=300, tokens=2), lanes=lanes) as (gateway, _engine):
        first = asyncio.create_task(ask(gateway))
        await _until(lambda: gateway.held()["slots"] == 1)
        status, text, headers = await ask(gateway)
        assert (status, json.loads(text)["error"]["code"]) == (429, "queue_timeout")
        assert int(headers["retry-after"]) >= 1
        assert (await first)[0] == 200


async def test_a_full_batch_lane_leaves_the_other_lane_alone() -> None:
    lanes = {"batch": {"pool_size": 2, "queue": 0}}
    async with gateway_on_sim(SimSettings(ttft_ms=200, tokens=2), lanes=lanes) as (gateway, _engine):
        busy = [asyncio.create_task(ask(gateway, **{"x-tokenlane-lane": "batch"})) for _ in range(2)]
        await _until(lambda: gateway.held()["slots"] == 2)
        assert (await ask(gateway, **{"x-tokenlane-lane": "batch"}))[0] == 429
        assert (await ask(gateway))[0] == 200
        assert [status for status, _, _ in await asyncio.gather(*busy)] == [200, 200]


async def test_the_single_topology_keeps_slots_free_for_chat() -> None:
    """Case H67: one engine for both lanes, and a batch that would take all of it."""
    lanes = {"lowlatency": {"pool_size": 6}, "batch": {"engines": []}}
    sim = SimSettings(ttft_ms=150, tokens=2)
    single = {"reserve": 2, "pace": False}
    async with gateway_on_sim(sim, lanes=lanes, topology="single", single=single) as (gateway, engine):
        batch = [asyncio.create_task(ask(gateway, **{"x-tokenlane-lane": "batch"})) for _ in range(12)]
        await _until(lambda: gateway.held()["waiting"] == 8 and engine.running == 4)
        status, _, headers = await ask(gateway)
        assert status == 200
        assert float(headers["x-tokenlane-queue-ms"]) < 100
        assert {status for status, _, _ in await asyncio.gather(*batch)} == {200}


async def test_in_the_single_topology_batch_requests_begin_by_and_by() -> None:
    """Case H67: what is not known to be harmless is tried by one request more at a time."""
    lanes = {"lowlatency": {"pool_size": 16}, "batch": {"engines": []}}
    async with gateway_on_sim(SimSettings(ttft_ms=1500, tokens=2), lanes=lanes, topology="single") as (gateway, engine):
        batch = [asyncio.create_task(ask(gateway, **{"x-tokenlane-lane": "batch"})) for _ in range(4)]
        seen = []
        while engine.running < 4:
            seen.append(engine.running)
            await asyncio.sleep(0.005)
        assert sorted(set(seen)) == [0, 1, 2, 3]
        assert (await gateway.http.get("/metrics")).text.count('tokenlane_ceiling{lane="batch"}') == 1
        assert {status for status, _, _ in await asyncio.gather(*batch)} == {200}


@pytest.mark.parametrize("workers", [300])
async def test_a_burst_of_plain_requests_leaves_nothing_behind(workers: int) -> None:
    async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=0, tokens=2), lanes={"lowlatency": {"queue": 512}}) as (
        gateway,
        _,
    ):
        body = {**BODY, "stream": False, "max_tokens": 2}
        answers = await asyncio.gather(*(gateway.http.post("/v1/chat/completions", json=body) for _ in range(workers)))
        assert {a.status_code for a in answers} == {200}


async def _until(condition: object) -> None:
    for _ in range(400):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to pass")
