"""The pool over real sockets: what is used again, what is not, and how many there are."""

import asyncio
import random
import socket

import pytest

from gateway.errors import EngineStale, EngineUnreachable
from gateway.upstream.client import EngineClient, PoolExhausted, PoolStatistics
from gateway.upstream.connection import Connection
from gateway.upstream.pool import Pool
from tests.fakes.loops import over_both_loops
from tests.fakes.scripted_engine import (
    Again,
    Fin,
    Peer,
    Read,
    Reset,
    ScriptedEngine,
    Send,
    Sleep,
    Step,
    chunk,
    ok,
    stream_head,
)

ANSWER: list[Step] = [Read(), Send(ok())]


async def ask(client: EngineClient, url: str, *, control: bool = False) -> bytes:
    response = await client.send("POST", url + "/v1/x", headers=[], body=b"{}", control=control)
    return await response.read(1000)


async def gone(peer: Peer) -> None:
    async with asyncio.timeout(5):
        await peer.closed.wait()


@over_both_loops
async def test_the_connection_given_back_last_is_used_first() -> None:
    async with ScriptedEngine([*ANSWER, Again()]) as engine:
        client = EngineClient()
        first = await client.send("GET", engine.url, headers=[])
        second = await client.send("GET", engine.url, headers=[])
        first.close()
        second.close()
        for _ in range(3):
            await ask(client, engine.url)
        assert [len(peer.requests) for peer in engine.peers] == [1, 4]
        await client.aclose()


@over_both_loops
async def test_an_idle_connection_is_closed_after_its_time_without_another_request() -> None:
    async with ScriptedEngine([*ANSWER, Again()]) as engine:
        client = EngineClient(keepalive=0.05)
        await ask(client, engine.url)
        await gone(engine.peers[0])
        assert client.statistics()[engine.url] == PoolStatistics()
        await ask(client, engine.url)
        assert len(engine.peers) == 2
        await client.aclose()


@pytest.mark.parametrize("ending", [Fin(), Reset(), Send(b"junk"), Send(ok())])
@over_both_loops
async def test_an_idle_connection_that_the_engine_spoils_is_not_used_again(ending: Fin | Reset | Send) -> None:
    async with ScriptedEngine([*ANSWER, Sleep(0.02), ending], ANSWER) as engine:
        client = EngineClient()
        await ask(client, engine.url)
        await gone(engine.peers[0]) if not isinstance(ending, Reset) else await asyncio.sleep(0.05)
        assert client.statistics()[engine.url] == PoolStatistics()
        await ask(client, engine.url)
        assert len(engine.peers) == 2
        await client.aclose()


@over_both_loops
async def test_a_close_that_the_event_loop_has_not_seen_yet_is_seen_by_asking_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pool = Pool(*server.getsockname(), size=1, keepalive=5, connect_timeout=5)
        connection = await pool.acquire()
        accepted, _ = server.accept()
        pool.shelve(connection)
        assert connection.is_usable()
        accepted.close()
        assert not connection.is_usable()
        assert await pool.acquire() is not connection
        await pool.aclose()


@pytest.mark.parametrize("surplus", [b"x", ok(), b"0\r\n\r\n"])
@over_both_loops
async def test_a_body_longer_than_its_framing_spoils_the_connection(surplus: bytes) -> None:
    async with ScriptedEngine([Read(), Send(ok(b"{}") + surplus)], ANSWER) as engine:
        client = EngineClient()
        assert await ask(client, engine.url) == b"{}"
        await gone(engine.peers[0])
        assert await ask(client, engine.url) == b"{}"
        await client.aclose()


@over_both_loops
async def test_connection_close_is_honoured() -> None:
    async with ScriptedEngine([Read(), Send(ok(b"{}", b"Connection: close"))], ANSWER) as engine:
        client = EngineClient()
        await ask(client, engine.url)
        await gone(engine.peers[0])
        await ask(client, engine.url)
        await client.aclose()


@pytest.mark.parametrize("ending", [Fin(), Reset()])
@over_both_loops
async def test_a_reused_connection_that_dies_before_a_byte_is_stale(ending: Fin | Reset) -> None:
    async with ScriptedEngine([*ANSWER, Read(), ending]) as engine:
        client = EngineClient()
        await ask(client, engine.url)
        with pytest.raises(EngineStale):
            await ask(client, engine.url)
        assert client.statistics()[engine.url] == PoolStatistics()
        await client.aclose()


@over_both_loops
async def test_a_race_with_the_engines_idle_close_is_stale_or_well_and_nothing_else() -> None:
    """Case H35: the engine closes 20 ms after its answer, the next request comes about then."""
    async with ScriptedEngine([*ANSWER, Sleep(0.02), Fin()]) as engine:
        client = EngineClient()
        dice = random.Random(35)
        for _ in range(60):
            try:
                assert await ask(client, engine.url) == b"{}"
            except EngineStale:
                assert await ask(client, engine.url) == b"{}", "a fresh connection must do"
            await asyncio.sleep(dice.uniform(0.019, 0.022))
        await client.aclose()
    assert len(engine.peers) > 30


@over_both_loops
async def test_an_engine_that_closes_after_each_answer_without_saying_so_is_stale_at_worst() -> None:
    """Case H35, the second engine."""
    async with ScriptedEngine([*ANSWER, Fin()]) as engine:
        client = EngineClient()
        for _ in range(50):
            try:
                await ask(client, engine.url)
            except EngineStale:
                await ask(client, engine.url)
        await client.aclose()


@over_both_loops
async def test_the_pool_has_exactly_its_size_and_says_so_instead_of_queueing() -> None:
    """Case H53: the limit is the one that was set; requests of the control plane pass beside it."""
    async with ScriptedEngine([Read(), Send(stream_head() + chunk(b"data: x\n\n"))], backlog=64) as engine:
        client = EngineClient(pool_size=32)
        streams = [await client.send("POST", engine.url, headers=[], body=b"{}") for _ in range(32)]
        with pytest.raises(PoolExhausted, match="32"):
            await client.send("POST", engine.url, headers=[], body=b"{}")
        health = await client.send("GET", engine.url + "/health", headers=[], control=True)
        assert client.statistics() == {
            engine.url: PoolStatistics(open=32, in_use=32),
            engine.url + " (control)": PoolStatistics(open=1, in_use=1),
        }
        health.close()
        streams.pop().close()
        streams.append(await client.send("POST", engine.url, headers=[], body=b"{}"))
        for stream in streams:
            stream.close()
        assert set(client.statistics().values()) == {PoolStatistics()}
        await client.aclose()


@over_both_loops
async def test_a_control_connection_is_used_once() -> None:
    async with ScriptedEngine([*ANSWER, Again()]) as engine:
        client = EngineClient()
        for _ in range(3):
            assert await ask(client, engine.url, control=True) == b"{}"
        assert len(engine.peers) == 3
        await client.aclose()


@over_both_loops
async def test_an_answer_before_the_request_was_read_spoils_the_connection() -> None:
    async with ScriptedEngine([Send(ok())]) as engine:
        client = EngineClient()
        async with asyncio.timeout(5):
            response = await client.send("POST", engine.url, headers=[], body=b"x" * 50_000_000)
            assert response.status == 200
        response.close()
        assert client.statistics()[engine.url] == PoolStatistics()
        await client.aclose()


@over_both_loops
async def test_a_connection_that_nobody_accepts_is_given_up_after_its_time() -> None:
    """Case H36 (d): the listener's queue is full, so the handshake is not answered."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(2)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = EngineClient(connect_timeout=0.1)
        with pytest.raises(EngineUnreachable, match="in time"):
            await ask(client, url)
        assert client.statistics()[url] == PoolStatistics()
        await client.aclose()
        for filler in fillers:
            filler.close()


@over_both_loops
async def test_small_writes_leave_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pool = Pool(*server.getsockname(), size=1, keepalive=5, connect_timeout=5)
        connection = await pool.acquire()
        assert isinstance(connection, Connection)
        assert connection._transport is not None
        assert connection._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await pool.aclose()
