"""When an engine is left out, and what brings it back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from app.sim import SimEngine, SimSettings
from gateway.errors import NoEngine
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim, running_gateway, settings_for
from tests.faults.asking import Client, ask, body, request, until

SIM = SimSettings(ttft_ms=1, itl_ms=0.2, tokens=4)
TIMES = {"first_token_s": 0.4}


@asynccontextmanager
async def two_engines(**changes: object) -> AsyncIterator[tuple[RunningGateway, SimEngine, SimEngine]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(SimEngine(SIM))
        second = await stack.enter_async_context(SimEngine(SIM))
        yield await stack.enter_async_context(running_gateway(settings_for(first, second, **changes))), first, second


def generations(engine: SimEngine) -> int:
    return sum(request.method == "POST" for request in engine.requests)


async def test_an_engine_that_hangs_is_taken_out_though_it_says_that_it_is_well() -> None:
    """Case H4: /health says 200 all the time; only a real generation brings it back."""
    async with two_engines(timeouts=TIMES, health={"interval_s": 0.05}) as (gateway, ill, _well):
        lane = gateway.service.gateway.lanes["lowlatency"]
        engine = lane.pool.engines[0]
        ill.set(fault="silence_head")
        answers = [await ask(gateway.url) for _ in range(8)]
        assert [a.headers["x-tokenlane-engine"] for a in answers if a.status == 504] == ["engine-0"] * 3
        assert [a.status for a in answers[-2:]] == [200] * 2
        assert not engine.healthy
        await until(lambda: sum(r.path == "/health" for r in ill.requests) > 2)
        await until(lambda: lane.gate.statistics().slots == engine.pool_size)
        asked = generations(ill)
        assert {(await ask(gateway.url)).status for _ in range(4)} == {200}
        ill.set(fault=None)
        await until(lambda: engine.healthy)
        assert generations(ill) > asked
        await until(lambda: lane.gate.statistics().slots == 2 * engine.pool_size)


async def test_a_lane_whose_only_engine_hangs_refuses_quickly_and_says_when_to_come_back() -> None:
    """Case H4."""
    async with gateway_on_sim(SIM, timeouts=TIMES, health={"failures": 2}) as (gateway, engine):
        engine.set(fault="silence_head")
        assert [(await ask(gateway.url)).status for _ in range(3)] == [504, 504, 503]
        answer = await ask(gateway.url, body(stream=False))
        assert (answer.status, answer.error["code"]) == (503, "no_engine")
        assert int(answer.headers["retry-after"]) >= 1
        assert "lane lowlatency has no engine" in gateway.service.not_ready()


async def test_streams_that_run_are_not_touched_when_their_engine_is_taken_out() -> None:
    """Case H4."""
    async with gateway_on_sim(SIM, timeouts=TIMES, health={"failures": 2}) as (gateway, engine):
        async with Client(gateway.url) as client:
            await client.send(request(x_sim_tokens="250", x_sim_itl_ms="10"))
            await client.until(b"data: ")
            for _ in range(2):
                await ask(gateway.url, x_sim_fault="silence_head")
            assert not gateway.service.gateway.lanes["lowlatency"].pool.engines[0].healthy
            assert (await client.rest()).done
        assert engine.running == 0


@pytest.mark.parametrize("code", [400, 404])
async def test_mistakes_of_clients_do_not_take_an_engine_out(code: int) -> None:
    """Case H5: nor is another engine asked."""
    async with two_engines(health={"failures": 3, "interval_s": 3600}) as (gateway, first, second):
        for _ in range(50):
            assert (await ask(gateway.url, x_sim_fault=f"status:{code}")).status == code
        assert generations(first) + generations(second) == 50
        assert all(e.healthy for e in gateway.service.gateway.lanes["lowlatency"].pool.engines)
        assert (await ask(gateway.url)).done


@pytest.mark.parametrize("code", [429, 503])
async def test_an_engine_that_is_busy_is_asked_again_at_once(code: int) -> None:
    """Case H6: no cool-down."""
    async with gateway_on_sim(SIM, health={"failures": 1, "interval_s": 3600}) as (gateway, _engine):
        fault = f"status:{code};retry-after=2"
        answers = await asyncio.gather(*(ask(gateway.url, x_sim_fault=fault) for _ in range(32)))
        assert {(a.status, a.headers["retry-after"]) for a in answers} == {(code, "2")}
        assert (await ask(gateway.url)).done


async def test_one_answer_that_fails_does_not_take_an_engine_out_and_three_do() -> None:
    """Case H30."""
    async with gateway_on_sim(SIM, health={"interval_s": 3600}) as (gateway, _engine):
        (engine,) = gateway.service.gateway.lanes["lowlatency"].pool.engines
        for _ in range(2):
            await ask(gateway.url, x_sim_fault="error_event@2")
        assert engine.healthy
        await ask(gateway.url)
        for _ in range(3):
            await ask(gateway.url, x_sim_fault="error_event@2")
        assert not engine.healthy


async def test_a_lane_without_an_engine_overflows_into_the_lane_that_it_names() -> None:
    """Case H4."""
    async with AsyncExitStack() as stack:
        well = await stack.enter_async_context(SimEngine(SIM))
        engines = [{"url": "http://127.0.0.1:1", "kind": "sim"}]
        lanes = {"lowlatency": {"engines": engines, "overflow": "batch"}}
        gateway = await stack.enter_async_context(running_gateway(settings_for(well, lanes=lanes)))
        await until(lambda: not gateway.service.gateway.lanes["lowlatency"].pool.capacity())
        answer = await ask(gateway.url)
        assert (answer.status, answer.headers["x-tokenlane-lane"]) == (200, "batch")


async def test_a_full_lane_overflows_and_a_lane_that_names_none_refuses() -> None:
    lanes = {"lowlatency": {"pool_size": 1, "queue": 0, "overflow": "batch"}, "batch": {"pool_size": 1, "queue": 0}}
    async with (
        gateway_on_sim(SIM, lanes=lanes) as (gateway, engine),
        Client(gateway.url) as first,
        Client(gateway.url) as second,
    ):
        for number, client in enumerate((first, second), 1):
            await client.send(request(x_sim_ttft_ms="60000"))
            await until(lambda: engine.running == number)  # noqa: B023 - waited for at once
        assert (await ask(gateway.url)).status == 429
        first.leave()
        second.leave()


async def test_many_who_ask_for_the_models_at_once_cost_each_engine_one_question_and_no_probe() -> None:
    """Cases H46 and H53: the connections for questions are few, and full ones are a fault of ours."""
    async with gateway_on_sim(SIM) as (gateway, engine):
        engine.set(accept_delay_ms=50)
        answers = await asyncio.gather(*(gateway.http.get("/v1/models") for _ in range(40)))
        assert {a.status_code for a in answers} == {200}
        assert sum(r.path == "/v1/models" for r in engine.requests) == 2


async def test_models_that_nobody_has_are_not_asked_for_by_everybody_in_turn() -> None:
    """Case H46: with every engine down each who asks would else wait for the one before."""
    async with SimEngine(SIM) as engine:
        settings = settings_for(engine)
    async with running_gateway(settings) as gateway:
        models = gateway.service.models
        answers = await asyncio.gather(*(models.listing() for _ in range(20)), return_exceptions=True)
        assert all(isinstance(a, NoEngine) for a in answers)


async def test_two_lanes_on_one_address_have_connections_enough_for_both() -> None:
    """Case H53: never more requests than connections, whatever the settings."""
    lanes = {"lowlatency": {"pool_size": 4}, "batch": {"pool_size": 4}}
    async with gateway_on_sim(SIM, lanes=lanes) as (gateway, engine):
        asked = [
            asyncio.create_task(ask(gateway.url, x_tokenlane_lane=lane, x_sim_ttft_ms="200"))
            for lane in ("lowlatency", "batch") * 4
        ]
        await until(lambda: engine.running == 8)
        assert {(await each).status for each in asked} == {200}
