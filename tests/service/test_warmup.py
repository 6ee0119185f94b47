"""An engine gets traffic once it is warm. The simulator is a vLLM here, and slow with batches of a new size."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.sim import SimEngine, SimSettings
from config.settings import Settings
from gateway.telemetry import TelemetryEvent, WarmUpBurst, WarmUpEnded, WarmUpOutcome
from tests.fakes.running_gateway import RunningGateway, running_gateway
from tests.faults.asking import until

SLOTS = 6
CHAT: dict[str, Any] = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}]}
COLD = SimSettings(ttft_ms=10, itl_ms=0.2, tokens=4, cold_ms=80, max_model_len=256)


def settings(engine: SimEngine, **changes: Any) -> Settings:
    lane = {"engines": [engine.url], "pool_size": SLOTS}
    warmup = {"prompt_tokens": [16], "longest_prompt": 0, **changes.pop("warmup", {})}
    tree: dict[str, Any] = {"topology": "single", "single": {"reserve": 2}, "lanes": {"lowlatency": lane}}
    tree |= {"warmup": warmup, "health": {"interval_s": 0.05}, "server": {"port": 0, "access_log": False}}
    return Settings(**tree | changes)


@asynccontextmanager
async def cold_gateway(
    sim: SimSettings = COLD, **changes: Any
) -> AsyncIterator[tuple[RunningGateway, SimEngine, list[TelemetryEvent]]]:
    """A gateway in front of an engine that begins to generate once everything that is reported is kept."""
    async with SimEngine(sim) as engine:
        engine.pause()
        async with running_gateway(settings(engine, **changes)) as gateway:
            events: list[TelemetryEvent] = []
            gateway.service.observer.add(events.append)  # type: ignore[attr-defined]
            engine.resume()
            yield gateway, engine, events


async def is_ready(gateway: RunningGateway, wanted: bool = True) -> None:
    await until(lambda: (not gateway.service.not_ready()) is wanted, gateway.service.not_ready)


async def ttft(gateway: RunningGateway) -> float:
    """Seconds until the first event of a stream."""
    clock = asyncio.get_running_loop().time
    began = clock()
    body = CHAT | {"stream": True}
    async with gateway.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        took = [clock() - began async for _ in answer.aiter_bytes()]
    return took[0]


async def burst(gateway: RunningGateway, size: int = SLOTS) -> float:
    return max(await asyncio.gather(*(ttft(gateway) for _ in range(size))))


def bursts(engine: SimEngine) -> list[dict[str, Any]]:
    """The bodies of the warm-up's requests."""
    posted = (json.loads(r.body) for r in engine.requests if r.path == "/v1/completions")
    return [body for body in posted if body.get("stream")]


async def test_the_gateway_is_not_ready_and_gives_no_traffic_until_the_engine_is_warm() -> None:
    """Case H66."""
    async with cold_gateway() as (gateway, engine, _):
        reasons = set()
        async with asyncio.timeout(20):
            while (answer := await gateway.http.get("/ready")).status_code == 503:
                reasons.update(answer.json()["reasons"])
                posted = await gateway.http.post("/v1/chat/completions", json=CHAT)
                assert posted.status_code == 503 or not gateway.service.not_ready()
        assert any(
            re.search(r"lane lowlatency is warming: lowlatency-0 \d+ of \d+ bursts", reason) for reason in reasons
        )
        assert any("lane batch is warming" in reason for reason in reasons)
        assert len(bursts(engine)) >= 2 * (1 + 2 + 4 + SLOTS)


async def first_against_steady() -> float:
    """How much longer the first burst after a warm-up waits than later ones."""
    async with cold_gateway() as (gateway, engine, _):
        await is_ready(gateway)
        compiled = engine.compiled
        first = await burst(gateway)
        assert engine.compiled == compiled == 4
        return first / max([await burst(gateway) for _ in range(4)])


async def test_the_first_burst_after_the_warm_up_waits_no_longer_than_the_next() -> None:
    """Case H66; a busy machine may spoil one try."""
    ratios: list[float] = []
    while len(ratios) < 3 and min(ratios, default=9) > 1.5:
        ratios.append(await first_against_steady())
    assert min(ratios) <= 1.5, ratios


async def test_without_a_warm_up_the_first_bursts_pay_for_every_size() -> None:
    async with cold_gateway(warmup={"mode": "off"}) as (gateway, engine, _):
        await is_ready(gateway)
        assert bursts(engine) == []
        compiled = engine.compiled
        cold = max([await burst(gateway) for _ in range(4)])
        assert engine.compiled > compiled
        assert cold >= COLD.cold_ms / 1000


async def test_an_engine_of_two_lanes_is_warmed_once_with_the_larger_number_of_slots() -> None:
    async with cold_gateway() as (gateway, engine, events):
        await is_ready(gateway)
        sizes = [e.concurrency for e in events if isinstance(e, WarmUpBurst)]
        assert max(sizes) == SLOTS
        assert sorted(set(sizes)) == [1, 2, 4, SLOTS]
        assert len(bursts(engine)) == sum(sizes)
        [end] = [e for e in events if isinstance(e, WarmUpEnded)]
        assert (end.outcome, end.bursts) == (WarmUpOutcome.STEADY, len(sizes))
        assert end.first is not None
        assert end.steady is not None
        assert end.first > 2 * end.steady
        text = gateway.service.metrics.text().decode()
        assert 'tokenlane_engine_warmups_total{engine="lowlatency-0",outcome="steady"} 1.0' in text
        assert 'tokenlane_engine_warmup_seconds{engine="lowlatency-0"}' in text
        assert "tokenlane_requests_total{" not in text


async def test_prompts_are_random_ids_of_exact_lengths_up_to_what_the_engine_takes() -> None:
    warm = {"prompt_tokens": [16, 512], "longest_prompt": 8192, "concurrency": 2}
    async with cold_gateway(warmup=warm) as (gateway, engine, _):
        await is_ready(gateway)
        bodies = bursts(engine)
        assert {len(body["prompt"]) for body in bodies} == {16, 248}
        assert len({tuple(body["prompt"]) for body in bodies}) == len(bodies)
        assert all(100 <= token <= 1000 for body in bodies for token in body["prompt"])
        assert {(b["model"], b["max_tokens"], b["temperature"], b["ignore_eos"]) for b in bodies} == {
            ("gpt-oss-20b", 8, 0, True)
        }


async def test_an_engine_that_was_restarted_is_warmed_again_before_it_gets_traffic() -> None:
    async with cold_gateway() as (gateway, engine, events):
        await is_ready(gateway)
        port = engine.port
        await engine.close()
        await is_ready(gateway, wanted=False)
        events.clear()
        await engine.start(port=port)
        await is_ready(gateway)
        assert [e.outcome for e in events if isinstance(e, WarmUpEnded)] == [WarmUpOutcome.STEADY]
        compiled = engine.compiled
        await burst(gateway)
        assert engine.compiled == compiled == 4


async def test_a_lane_whose_engine_is_not_warm_holds_up_no_other_lane() -> None:
    """Case H66."""
    warm = SimSettings(ttft_ms=1, itl_ms=0.2, tokens=4)
    async with SimEngine(warm) as engine, SimEngine(warm) as ill:
        ill.set(fault="reset@1")
        lanes = {"lowlatency": {"engines": [engine.url], "pool_size": 2}, "batch": {"engines": [ill.url]}}
        async with running_gateway(settings(engine, topology="split", lanes=lanes)) as gateway:
            await until(lambda: len(gateway.service.not_ready()) == 1)
            assert (await gateway.http.post("/v1/chat/completions", json=CHAT)).status_code == 200
            refused = await gateway.http.post("/v1/chat/completions", json=CHAT, headers={"x-tokenlane-lane": "batch"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_engine")
            assert int(refused.headers["retry-after"]) >= 1


async def test_an_outage_of_an_engine_that_was_not_restarted_needs_no_warm_up() -> None:
    async with cold_gateway() as (gateway, engine, events):
        await is_ready(gateway)
        asked = len(bursts(engine))
        (ours,) = gateway.service.gateway.lanes["lowlatency"].pool.engines
        engine.set(fault="status:500")
        for _ in range(3):
            await gateway.http.post("/v1/chat/completions", json=CHAT)
        assert not ours.healthy
        engine.set(fault=None)
        await is_ready(gateway)
        assert len(bursts(engine)) == asked
        assert sum(isinstance(e, WarmUpEnded) for e in events) == 1


async def test_an_engine_that_fails_while_it_is_warmed_is_not_let_in_until_it_is_well() -> None:
    async with cold_gateway(warmup={"concurrency": 2}) as (gateway, engine, events):
        await until(lambda: bursts(engine))
        engine.set(fault="reset@1")
        await until(lambda: any(isinstance(e, WarmUpEnded) for e in events))
        assert gateway.service.not_ready()
        engine.set(fault=None)
        await is_ready(gateway)
        outcomes = [e.outcome for e in events if isinstance(e, WarmUpEnded)]
        assert (outcomes[0], outcomes[-1]) == (WarmUpOutcome.FAILED, WarmUpOutcome.STEADY)


async def test_an_engine_that_is_not_steady_in_time_is_let_in_all_the_same() -> None:
    async with cold_gateway(warmup={"max_s": 0.3}) as (gateway, _, events):
        await is_ready(gateway)
        [end] = [e for e in events if isinstance(e, WarmUpEnded)]
        assert (end.outcome, end.reason) == (WarmUpOutcome.OUT_OF_TIME, "not steady within 0.3 s")


async def test_a_gateway_that_is_stopped_while_it_warms_leaves_nothing_behind() -> None:
    async with cold_gateway() as (gateway, engine, _):
        await until(lambda: engine.running >= 2)
        assert gateway.service.not_ready()


@pytest.mark.parametrize("kind", ["sim", "vllm"])
async def test_simulated_engines_are_always_warm(kind: str) -> None:
    async with SimEngine(COLD) as engine:
        lane = {"engines": [{"url": engine.url, "kind": kind}], "pool_size": 2}
        async with running_gateway(settings(engine, lanes={"lowlatency": lane}, single={"reserve": 1})) as gateway:
            await is_ready(gateway)
            assert bool(bursts(engine)) is (kind == "vllm")


async def test_a_model_that_does_not_generate_is_let_in_without_a_warm_up() -> None:
    """What it can do is asked for instead: a vector."""
    async with cold_gateway(SimSettings(fault="status:404")) as (gateway, engine, _):
        await is_ready(gateway)
        text = gateway.service.metrics.text().decode()
        assert 'tokenlane_engine_warmups_total{engine="lowlatency-0",outcome="skipped"} 1.0' in text
        asked = [r.path for r in engine.requests if r.method == "POST"]
        generating = ["/v1/completions", "/v1/chat/completions"]
        assert asked == [*generating, "/v1/embeddings", *generating]
        answer = await gateway.http.post("/v1/embeddings", json={"model": "gpt-oss-20b", "input": "hi"})
        assert answer.status_code == 200
