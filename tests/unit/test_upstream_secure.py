"""`gateway/upstream/secure.py`: the transport under it plays a script."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.errors import EngineBroke
from gateway.upstream.body import Body
from gateway.upstream.failures import BrokenAnswer, PoolExhausted
from gateway.upstream.pool import PoolStatistics
from gateway.upstream.secure import SecurePool, stock_transport
from tests.fakes.sinks import RecordingSink

REQUEST = httpx.Request("GET", "https://engine/")


class ScriptedStream(httpx.AsyncByteStream):
    """Pieces, or an exception to raise."""

    def __init__(self, *script: bytes | Exception) -> None:
        self.script = script
        self.given = 0
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self.script:
            await asyncio.sleep(0)
            if isinstance(step, Exception):
                raise step
            self.given += 1
            yield step

    async def aclose(self) -> None:
        self.closed.set()


class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers with a stream, or raises."""

    def __init__(self, answer: ScriptedStream | Exception, headers: dict[str, str] | None = None) -> None:
        self.answer = answer
        self.headers = headers
        self.closed = False

    async def handle_async_request(self, _request: httpx.Request) -> httpx.Response:
        if isinstance(self.answer, Exception):
            raise self.answer
        return httpx.Response(200, headers=self.headers, stream=self.answer)

    async def aclose(self) -> None:
        self.closed = True


def pool_of(answer: ScriptedStream | Exception, headers: dict[str, str] | None = None) -> SecurePool:
    return SecurePool(ScriptedTransport(answer, headers), size=1, connect_timeout=1)


async def body_of(pool: SecurePool) -> Body:
    body: Body = (await pool.request(REQUEST)).extensions["body"]
    return body


async def test_a_body_is_pushed_in_pieces_and_ends_once() -> None:
    stream = ScriptedStream(b"a", b"", b"b")
    pool = pool_of(stream)
    body, sink = await body_of(pool), RecordingSink()
    body.attach(sink)
    await sink.over.wait()
    assert (sink.pieces, sink.endings) == ([b"a", b"b"], [None])
    assert pool.statistics() == PoolStatistics(open=1, in_use=1)
    body.close()
    body.close()
    assert pool.statistics() == PoolStatistics()
    await stream.closed.wait()
    await pool.aclose()


async def test_a_body_that_breaks_gives_what_came_before() -> None:
    pool = pool_of(ScriptedStream(b"a", httpx.ReadError("secret.host:443")))
    body, sink = await body_of(pool), RecordingSink()
    body.attach(sink)
    await sink.over.wait()
    assert sink.pieces == [b"a"]
    assert isinstance(sink.endings[0], EngineBroke)
    assert "secret" not in str(sink.endings[0])
    body.close()
    await pool.aclose()


async def test_a_paused_body_is_not_read_on() -> None:
    stream = ScriptedStream(*[b"x"] * 10)
    pool = pool_of(stream)
    body = await body_of(pool)
    sink = RecordingSink(on_data=body.pause)
    body.attach(sink)
    for _ in range(50):
        await asyncio.sleep(0)
    assert stream.given == 2, "one was taken, one waits"
    while not sink.over.is_set():
        body.resume()
        await asyncio.sleep(0)
    assert sink.data == b"x" * 10
    body.close()
    await pool.aclose()


@pytest.mark.parametrize("attached", [True, False])
async def test_a_closed_body_closes_its_stream_and_says_nothing_more(attached: bool) -> None:
    stream = ScriptedStream(*[b"x"] * 1000)
    pool = pool_of(stream)
    body, sink = await body_of(pool), RecordingSink()
    if attached:
        body.attach(sink)
        await asyncio.sleep(0)
    body.close()
    assert pool.statistics() == PoolStatistics()
    async with asyncio.timeout(1):
        await stream.closed.wait()
    assert sink.endings == []
    await pool.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_request_too_many_is_refused_and_a_failed_one_leaves_its_place() -> None:
    pool = pool_of(ScriptedStream(b"a"))
    body = await body_of(pool)
    with pytest.raises(PoolExhausted):
        await pool.request(REQUEST)
    body.close()
    failing = pool_of(httpx.ConnectError("no"))
    for _ in range(2):
        with pytest.raises(httpx.ConnectError):
            await failing.request(REQUEST)
    await pool.aclose()
    await failing.aclose()


async def test_a_compressed_answer_is_broken() -> None:
    pool = pool_of(ScriptedStream(b"a"), {"content-encoding": "br"})
    with pytest.raises(BrokenAnswer):
        await pool.request(REQUEST)
    assert pool.statistics() == PoolStatistics()
    await pool.aclose()


async def test_the_stock_transport_can_be_made_and_closed() -> None:
    transport = stock_transport(size=2, keepalive=1.0, tls=None)
    await transport.aclose()
