"""The transport under httpx's own client: it is an httpx transport like any other."""

import httpx
import pytest

from gateway.upstream.transport import EngineTransport, Limits
from tests.fakes.loops import over_both_loops
from tests.fakes.scripted_engine import Again, Fin, Read, ScriptedEngine, Send, chunk, ok, stream_head

LIMITS = Limits(pool_size=2, control_size=1, keepalive=4, connect_timeout=5, max_head=65536)


@over_both_loops
async def test_httpx_reads_and_streams_through_it() -> None:
    answer = stream_head() + chunk(b"a") + chunk(b"b") + chunk(b"")
    async with (
        ScriptedEngine([Read(), Send(ok(b"x" * 1_000_000)), Read(), Send(answer, cut=1)]) as engine,
        httpx.AsyncClient(transport=EngineTransport(LIMITS)) as client,
    ):
        assert (await client.post(engine.url, content=b"{}")).content == b"x" * 1_000_000
        async with client.stream("GET", engine.url) as response:
            assert b"".join([piece async for piece in response.aiter_raw()]) == b"ab"
        assert len(engine.peers) == 1


@over_both_loops
async def test_httpx_is_told_of_a_truncated_body() -> None:
    async with (
        ScriptedEngine([Read(), Send(stream_head() + chunk(b"a")), Fin()]) as engine,
        httpx.AsyncClient(transport=EngineTransport(LIMITS)) as client,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(engine.url)


@over_both_loops
async def test_a_stream_that_is_left_gives_its_place_back() -> None:
    transport = EngineTransport(LIMITS)
    async with (
        ScriptedEngine([Read(), Send(stream_head() + chunk(b"a")), Again()]) as engine,
        httpx.AsyncClient(transport=transport) as client,
    ):
        for _ in range(3):
            async with client.stream("GET", engine.url) as response:
                async for piece in response.aiter_raw():
                    assert piece == b"a"
                    break
        assert transport.statistics()[engine.url].open == 0
