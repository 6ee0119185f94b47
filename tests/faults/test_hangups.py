"""A client that leaves is noticed wherever its request is, and the engine is told at once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from app.sim import SimEngine, SimSettings
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim
from tests.fakes.scripted_engine import ScriptedEngine
from tests.faults.asking import Client, ask, body, counted, gateway_on, request, until

SIM = SimSettings(ttft_ms=1, itl_ms=1, tokens=4)
SOON = 1.0
"""Seconds within which an engine sees that a client has left."""


async def in_prefill(gateway: RunningGateway, engine: SimEngine, client: Client, content: bytes) -> None:
    await client.send(request(content, x_sim_ttft_ms="60000"))
    await until(lambda: engine.running == 1)


async def in_the_stream(gateway: RunningGateway, engine: SimEngine, client: Client, content: bytes) -> None:
    await client.send(request(content, x_sim_tokens="100000", x_sim_itl_ms="5"))
    await client.until(b"data: ")


async def in_a_gap(gateway: RunningGateway, engine: SimEngine, client: Client, content: bytes) -> None:
    await client.send(request(content, x_sim_fault="slow:60000@2"))
    await client.until(b"data: ")


WHERE: dict[str, Callable[[RunningGateway, SimEngine, Client, bytes], Awaitable[None]]] = {
    "in prefill": in_prefill,
    "in the stream": in_the_stream,
    "in a gap": in_a_gap,
}


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "in order"])
@pytest.mark.parametrize(("where", "streamed"), [*((where, True) for where in WHERE), ("in prefill", False)], ids=str)
async def test_the_engine_sees_at_once_that_a_client_has_left(where: str, streamed: bool, reset: bool) -> None:
    """Cases H2 and H60: with every middleware on; counted as 499, and the engine is not blamed."""
    async with gateway_on_sim(SIM, server={"access_log": True}) as (gateway, engine), Client(gateway.url) as client:
        with capture_logs() as lines:
            await WHERE[where](gateway, engine, client, body(stream=streamed))
            loop = asyncio.get_running_loop()
            left = loop.time()
            client.leave(reset=reset)
            await until(lambda: engine.running == 0)
            assert loop.time() - left < SOON
            await gateway.settles()
            await until(lambda: any(line["event"] == "request" for line in lines))
        (line,) = [line for line in lines if line["event"] == "request"]
        assert (line["status"], line["outcome"]) == (499, "client_gone")
        assert await counted(gateway, "client_gone", 499) == 1
        lane_engine = gateway.service.gateway.lanes["lowlatency"].pool.engines[0]
        assert lane_engine.healthy
        assert lane_engine.breaker._failures == 0


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_leaves_the_queue_is_never_heard_of_by_the_engine(streamed: bool) -> None:
    """Case H2."""
    lanes = {"lowlatency": {"pool_size": 1}}
    async with gateway_on_sim(SIM, lanes=lanes) as (gateway, engine), Client(gateway.url) as holder:
        await in_prefill(gateway, engine, holder, body())
        asked = len(engine.requests)
        async with Client(gateway.url) as client:
            await client.send(request(body(stream=streamed)))
            await until(lambda: gateway.held()["waiting"] == 1)
            client.leave()
            await until(lambda: gateway.held()["waiting"] == 0)
        assert len(engine.requests) == asked
        assert await counted(gateway, "client_gone", 499) == 1
        holder.leave()


async def test_a_client_that_leaves_while_the_engine_is_being_connected_sends_nothing_to_it() -> None:
    """Case H2: the body was read, the engine has not accepted yet."""
    async with ScriptedEngine([], accept_delay=0.3) as engine, gateway_on(engine) as gateway:
        async with Client(gateway.url) as client:
            await client.send(request())
            await until(lambda: gateway.held()["leases"])
            client.leave()
        await gateway.settles()
        assert await counted(gateway, "client_gone", 499) == 1
        await until(lambda: not engine.peers or engine.open_peers == 0)


async def test_a_client_that_leaves_after_the_last_word_has_had_a_whole_answer() -> None:
    """Case H59: not a hang-up."""
    async with gateway_on_sim(SIM) as (gateway, _engine):
        async with Client(gateway.url) as client:
            await client.send(request())
            await client.until(b"[DONE]")
            client.leave(reset=True)
        await gateway.settles()
        assert await counted(gateway, "ok", 200) == 1


async def test_a_client_that_leaves_at_any_point_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Case H59: bytes of the answer are read one more each time, then the client goes."""
    async with gateway_on_sim(SIM) as (gateway, _engine):
        for size in range(1, 1200, 40):
            async with Client(gateway.url) as client:
                await client.send(request())
                await client.read(size)
                client.leave(reset=bool(size % 80 == 1))
        await gateway.settles()
        assert (await ask(gateway.url)).done
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]


async def test_a_half_closed_client_is_one_that_left() -> None:
    """A client that says that it will send no more is not told from one that is gone: vLLM does not either."""
    async with gateway_on_sim(SIM) as (gateway, engine), Client(gateway.url) as client:
        await in_prefill(gateway, engine, client, body())
        client._socket.shutdown(1)
        await until(lambda: engine.running == 0)
