"""Whatever is cancelled leaves no connection, no task and no place in the pool behind."""

import asyncio
import gc
import random
import socket

import pytest

from gateway.errors import EngineUnreachable
from gateway.upstream.client import EngineClient, EngineResponse, PoolStatistics
from tests.fakes.loops import over_both_loops
from tests.fakes.scripted_engine import Again, Read, ScriptedEngine, Send, Sleep, Step, chunk, ok, stream_head
from tests.fakes.sinks import RecordingSink

NOTHING = PoolStatistics()
FIRST = stream_head() + chunk(b"data: x\n\n")


async def post(client: EngineClient, url: str) -> EngineResponse:
    return await client.send("POST", url, headers=[], body=b"{}")


async def cancelled(task: "asyncio.Task[EngineResponse]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@over_both_loops
async def test_cancelled_while_connecting() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(2)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = EngineClient()
        tasks = [asyncio.create_task(post(client, url)) for _ in range(32)]
        await asyncio.sleep(0.05)
        assert client.statistics()[url] == PoolStatistics(connecting=32)
        for task in tasks:
            await cancelled(task)
        assert client.statistics()[url] == NOTHING
        await client.aclose()
        for filler in fillers:
            filler.close()


@over_both_loops
async def test_cancelled_after_any_number_of_turns_of_the_event_loop() -> None:
    """Each await in `send` is met: before, during and after the connect, and in the turn in which it is granted."""
    async with ScriptedEngine([Read(), Send(FIRST)], backlog=256) as engine:
        client = EngineClient()
        for turns in range(40):
            task = asyncio.create_task(post(client, engine.url))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                task.result().close()
            else:
                await cancelled(task)
            assert set(client.statistics().values()) <= {NOTHING}
        await client.aclose()
        await asyncio.sleep(0.05)
        assert engine.open_peers == 0


@over_both_loops
async def test_cancelled_while_waiting_for_the_head_is_seen_by_the_engine() -> None:
    """Case H2: the engine is silent; it sees the close at once."""
    async with ScriptedEngine([Read()]) as engine:
        client = EngineClient()
        task = asyncio.create_task(post(client, engine.url))
        await engine.asked(1)
        await cancelled(task)
        assert client.statistics()[engine.url] == NOTHING
        async with asyncio.timeout(1):
            await engine.peers[0].closed.wait()
        await client.aclose()


@over_both_loops
async def test_cancelled_while_waiting_for_the_head_on_a_reused_connection() -> None:
    async with ScriptedEngine([Read(), Send(ok()), Read()]) as engine:
        client = EngineClient()
        await (await post(client, engine.url)).read(10)
        task = asyncio.create_task(post(client, engine.url))
        await engine.asked(2)
        await cancelled(task)
        assert client.statistics()[engine.url] == NOTHING
        async with asyncio.timeout(1):
            await engine.peers[0].closed.wait()
        await client.aclose()


@over_both_loops
async def test_cancelled_in_the_turn_in_which_the_connection_breaks() -> None:
    """No 'exception was never retrieved' may be left: `over_both_loops` listens for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = EngineClient()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        task = asyncio.create_task(post(client, url))
        await asyncio.sleep(0.02)
        assert client.statistics()[url].in_use == 1
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        assert not task.done()
        await cancelled(task)
        await closing
        del task
        gc.collect()


@pytest.mark.parametrize("how", ["close", "read"])
@over_both_loops
async def test_left_during_the_body_is_seen_by_the_engine(how: str) -> None:
    """Case H2, in the stream."""
    async with ScriptedEngine([Read(), Send(FIRST)]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        if how == "close":
            sink = RecordingSink()
            response.attach(sink)
            response.close()
            assert sink.endings == []
        else:
            task = asyncio.create_task(response.read(1000))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert client.statistics()[engine.url] == NOTHING
        async with asyncio.timeout(1):
            await engine.peers[0].closed.wait()
        await client.aclose()


@over_both_loops
async def test_a_client_closed_while_a_request_connects_lets_nothing_through() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = EngineClient()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        task = asyncio.create_task(post(client, url))
        await asyncio.sleep(0)
        assert client.statistics()[url].connecting == 1
        await client.aclose()
        with pytest.raises(EngineUnreachable):
            await task
        assert client.statistics()[url] == NOTHING
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@over_both_loops
async def test_churn_over_the_bound_leaves_every_place_free() -> None:
    """Case H1: 96 clients that leave at any moment, on 32 places that are admitted to; then 32 at once succeed."""
    answer = stream_head() + chunk(b"data: x\n\n") + chunk(b"")
    script: list[Step] = [Read(), Sleep(0.03), Send(answer), Again()]
    async with ScriptedEngine(script, accept_delay=0.001, backlog=512) as engine:
        client = EngineClient(pool_size=32)
        admitted = asyncio.Semaphore(32)
        dice = random.Random(1)

        async def one() -> None:
            async with admitted:
                response = await post(client, engine.url)
                try:
                    sink = RecordingSink()
                    response.attach(sink)
                    await sink.over.wait()
                finally:
                    response.close()

        for _ in range(5):
            tasks = [asyncio.create_task(one()) for _ in range(96)]
            for task in dice.sample(tasks, len(tasks)):
                await asyncio.sleep(dice.uniform(0, 0.003))
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            counts = client.statistics()[engine.url]
            assert (counts.connecting, counts.in_use) == (0, 0)
            assert counts.open == counts.idle <= 32
        async with asyncio.timeout(5):
            await asyncio.gather(*(one() for _ in range(32)))
        await client.aclose()
        assert client.statistics()[engine.url] == NOTHING


@over_both_loops
async def test_streams_left_at_random_points_are_each_closed_once() -> None:
    """Case H59: before the first chunk, within one, at the end."""
    data = FIRST + chunk(b"data: y\n\n") * 5 + chunk(b"data: [DONE]\n\n") + chunk(b"")
    async with ScriptedEngine([Read(), Send(data, cut=37, gap=0.0005), Again()], backlog=512) as engine:
        client = EngineClient()
        dice = random.Random(59)

        async def one() -> None:
            response = await post(client, engine.url)
            sink = RecordingSink()
            response.attach(sink)
            await asyncio.sleep(dice.uniform(0, 0.02))
            endings = len(sink.endings)
            response.close()
            await asyncio.sleep(0.005)
            assert len(sink.endings) == endings <= 1

        for _ in range(4):
            await asyncio.gather(*(one() for _ in range(32)))
        gc.collect()
        assert client.statistics()[engine.url].in_use == 0
        await client.aclose()
