"""A client that reads slowly loses nothing; one that does not read is cut, and its socket goes away."""

import asyncio
import json
import resource

import pytest

from app.sim import SimSettings
from tests.fakes.running_gateway import gateway_on_sim
from tests.fakes.scripted_engine import Read, ScriptedEngine, Send, chunk
from tests.faults.asking import (
    DONE,
    END,
    ROLE,
    Client,
    ask,
    counted,
    finish,
    gateway_on,
    request,
    said,
    streamed,
    text,
    until,
)

WORDS = [f"word{n} " * 30 for n in range(20000)]
FLOOD = streamed(ROLE) + b"".join(chunk(text(word)) for word in WORDS)
WHOLE = FLOOD + chunk(finish()) + chunk(DONE) + END
ENDLESS = streamed(ROLE) + chunk(text("x" * 60000)) * 400
SMALL = 4096


async def test_a_client_that_reads_slowly_gets_every_token_in_fewer_events() -> None:
    """Case H57: what waits is merged, never dropped."""
    async with ScriptedEngine([Read(), Send(WHOLE)]) as engine:
        limits = {"buffer_high_water_bytes": 65536}
        async with gateway_on(engine, limits=limits) as gateway, Client(gateway.url, receive_buffer=SMALL) as client:
            await client.send(request())
            for _ in range(400):
                await client.read(2048)
                await asyncio.sleep(0.002)
            answer = await client.rest()
            assert answer.text == "".join(WORDS)
            assert answer.done
            assert len(answer.events) < len(WORDS) / 4
            assert max(len(said(json.loads(event))) for event in answer.events[1:-2]) > 8 * len(WORDS[-1])


async def test_an_engine_is_not_read_while_its_client_does_not_read() -> None:
    """Case H57: memory has a bound, whatever the engine has to say."""
    async with ScriptedEngine([Read(), Send(ENDLESS)]) as engine:
        limits = {"buffer_high_water_bytes": 65536}
        timeouts = {"write_deadline_s": 60}
        async with (
            gateway_on(engine, limits=limits, timeouts=timeouts) as gateway,
            Client(gateway.url, receive_buffer=SMALL) as client,
        ):
            await client.send(request())
            await until(lambda: engine.peers)
            sent = -1
            while engine.peers[0].sent != sent:
                sent = engine.peers[0].sent
                await asyncio.sleep(0.3)
            assert sent < len(ENDLESS)
            (passage,) = gateway.service.gateway.live
            assert passage._buffer is not None
            held = passage._buffer._outbox.size + passage._buffer._strategy.pending
            assert held < 65536 + 2 * 262144
            client.leave(reset=True)


@pytest.mark.parametrize("script", [ENDLESS, WHOLE], ids=["an answer without an end", "a whole answer"])
async def test_a_client_that_does_not_read_is_cut_and_its_socket_goes_away(
    script: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Case H57: the engine is free at once, and nothing of the client is left."""
    async with ScriptedEngine([Read(), Send(script)]) as engine:
        timeouts = {"write_deadline_s": 0.2}
        async with gateway_on(engine, timeouts=timeouts) as gateway:
            async with Client(gateway.url, receive_buffer=SMALL) as client:
                await client.send(request())
                await client.until(b"data: ")
                await until(lambda: gateway.held()["requests"] == 0)
                await gateway.settles()
                await until(client.is_cut)
                await client.rest()
                assert client.reset
            await until(lambda: engine.open_peers == 0 or script is WHOLE)
            assert await counted(gateway, "client_gone", 499) == 1
            assert gateway.service.gateway.lanes["lowlatency"].pool.engines[0].healthy
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_client_that_does_not_read_hurts_nobody_else() -> None:
    """Case H57."""
    async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=1, tokens=40), timeouts={"write_deadline_s": 30}) as (
        gateway,
        engine,
    ):
        stuck = [Client(gateway.url, receive_buffer=SMALL) for _ in range(8)]
        for client in stuck:
            await client.__aenter__()
            await client.send(request(x_sim_tokens="900000", x_sim_itl_ms="0"))
        await until(lambda: engine.running == 8)
        answers = await asyncio.gather(*(ask(gateway.url) for _ in range(16)))
        assert all(a.done for a in answers)
        for client in stuck:
            client.leave(reset=True)
        await until(lambda: engine.running == 0)


async def test_memory_does_not_grow_with_what_a_client_does_not_read() -> None:
    """Case H57: twenty megabytes for each of four clients that do not read."""
    async with (
        ScriptedEngine([Read(), Send(ENDLESS)]) as engine,
        gateway_on(engine, limits={"buffer_high_water_bytes": 65536}) as gateway,
    ):
        clients = [Client(gateway.url, receive_buffer=SMALL) for _ in range(4)]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for client in clients:
            await client.__aenter__()
            await client.send(request())
        await until(lambda: len(engine.requests) == 4)
        await asyncio.sleep(0.5)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024
        for client in clients:
            client.leave(reset=True)
