"""The client to the engines over real sockets: what comes of an answer, whole or broken."""

import asyncio
import socket

import pytest

from gateway.errors import EngineBroke, EngineUnreachable
from gateway.upstream.client import EngineClient, EngineResponse, PoolStatistics
from tests.fakes.loops import over_both_loops
from tests.fakes.scripted_engine import (
    Again,
    Fin,
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
from tests.fakes.sinks import RecordingSink

EVENT = b'data: {"choices":[]}\n\n'
NOTHING = PoolStatistics()


async def post(client: EngineClient, url: str) -> EngineResponse:
    headers = [("content-type", "application/json")]
    return await client.send("POST", url + "/v1/chat/completions", headers=headers, body=b"{}")


async def received(response: EngineResponse) -> RecordingSink:
    sink = RecordingSink()
    response.attach(sink)
    async with asyncio.timeout(5):
        await sink.over.wait()
    assert len(sink.endings) == 1
    response.close()
    response.close()
    return sink


@over_both_loops
async def test_a_stream_is_pushed_as_it_comes_and_its_connection_used_again() -> None:
    script: list[Step] = [
        Read(),
        Send(stream_head() + chunk(EVENT)),
        Sleep(0.01),
        Send(chunk(EVENT) + chunk(b"")),
        Again(),
    ]
    async with ScriptedEngine(script) as engine:
        client = EngineClient()
        for _ in range(3):
            response = await post(client, engine.url)
            assert response.status == 200
            assert response.headers.get("content-type") == "text/event-stream; charset=utf-8"
            sink = await received(response)
            assert sink.pieces == [EVENT, EVENT]
            assert sink.endings == [None]
        assert client.statistics() == {engine.url: PoolStatistics(open=1, idle=1)}
        await client.aclose()
        assert client.statistics() == {engine.url: NOTHING}
    assert len(engine.peers) == 1
    assert engine.requests[0].headers == engine.requests[2].headers


@over_both_loops
async def test_a_whole_answer_can_be_read() -> None:
    async with ScriptedEngine([Read(), Send(ok(b'{"a":1}', b"Retry-After: 7", status=b"429 Too Many"))]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        assert (response.status, response.headers.get("retry-after")) == (429, "7")
        assert await response.read(100) == b'{"a":1}'
        assert client.statistics()[engine.url].idle == 1
        await client.aclose()


@over_both_loops
async def test_an_answer_larger_than_the_limit_is_refused_and_its_connection_closed() -> None:
    async with ScriptedEngine([Read(), Send(ok(b"x" * 101))]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        with pytest.raises(EngineBroke, match="too large"):
            await response.read(100)
        await client.aclose()


@over_both_loops
async def test_an_answer_in_writes_of_one_byte_is_the_same() -> None:
    data = stream_head() + chunk(EVENT) + chunk(EVENT) + chunk(b"")
    async with ScriptedEngine([Read(), Send(data, cut=1)]) as engine:
        client = EngineClient()
        sink = await received(await post(client, engine.url))
        assert (sink.data, sink.endings) == (EVENT * 2, [None])
        await client.aclose()


@over_both_loops
async def test_a_chunk_of_a_million_bytes_arrives_whole() -> None:
    """Case H56."""
    big = b"x" * 1_000_000
    async with ScriptedEngine([Read(), Send(stream_head() + chunk(big) + chunk(b""), cut=16384)]) as engine:
        client = EngineClient()
        sink = await received(await post(client, engine.url))
        assert sink.data == big
        await client.aclose()


@over_both_loops
async def test_http_1_0_without_a_length_ends_with_the_connection() -> None:
    async with ScriptedEngine([Read(), Send(b"HTTP/1.0 200 OK\r\n\r\nhello"), Fin()]) as engine:
        client = EngineClient()
        sink = await received(await post(client, engine.url))
        assert (sink.data, sink.endings) == (b"hello", [None])
        assert client.statistics()[engine.url] == NOTHING
        await client.aclose()


@pytest.mark.parametrize("ending", [Fin(), Reset()])
@pytest.mark.parametrize("length", ["chunked", "content-length"])
@over_both_loops
async def test_a_truncated_answer_gives_every_byte_before_the_error(length: str, ending: Fin | Reset) -> None:
    head = stream_head() + b"5\r\n" if length == "chunked" else b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    async with ScriptedEngine([Read(), Send(head + b"hel"), Sleep(0.05), ending]) as engine:
        client = EngineClient()
        sink = await received(await post(client, engine.url))
        assert sink.data == b"hel"
        assert isinstance(sink.endings[0], EngineBroke)
        assert sink.endings[0].__cause__ is not None
        assert client.statistics()[engine.url] == NOTHING
        await client.aclose()


@over_both_loops
async def test_garbage_within_a_stream_ends_it_after_what_was_good() -> None:
    async with ScriptedEngine([Read(), Send(stream_head() + chunk(EVENT) + b"zz\r\n" + b"x" * 100)]) as engine:
        client = EngineClient()
        sink = await received(await post(client, engine.url))
        assert sink.data == EVENT
        assert isinstance(sink.endings[0], EngineBroke)
        assert client.statistics()[engine.url] == NOTHING
        await client.aclose()


@pytest.mark.parametrize(
    "steps",
    [
        [Send(b"\0\0\0garbage\r\n\r\n")],
        [Send(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000)],
        [Send(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx")],
        [Send(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")],
        [Send(b"HTTP/1.1 2"), Fin()],
        [Fin()],
        [Reset()],
    ],
    ids=["garbage", "large head", "compressed", "upgrade", "end in the head", "end", "reset"],
)
@over_both_loops
async def test_no_answer_on_a_new_connection_is_broken_and_leaves_nothing(steps: list[Send | Fin | Reset]) -> None:
    async with ScriptedEngine([Read(), *steps]) as engine:
        client = EngineClient()
        with pytest.raises(EngineBroke) as caught:
            await post(client, engine.url)
        assert "127.0.0.1" not in str(caught.value)
        assert client.statistics()[engine.url] == NOTHING
        await client.aclose()


@over_both_loops
async def test_a_refused_connection_is_unreachable_and_names_no_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        client = EngineClient()
        for url in (
            f"http://127.0.0.1:{port}",
            "http://name.invalid",
            "ftp://127.0.0.1",
            "http://[",
            f"http://{'a' * 70}.b",
        ):
            with pytest.raises(EngineUnreachable) as caught:
                await post(client, url)
            assert str(port) not in str(caught.value)
            assert "invalid" not in str(caught.value)
        assert set(client.statistics().values()) == {NOTHING}
        await client.aclose()


@over_both_loops
async def test_a_redirect_is_an_answer_and_cookies_are_forgotten() -> None:
    answer = ok(b"", b"Location: http://127.0.0.1:1/", b"Set-Cookie: a=b; Path=/", status=b"307 Temporary Redirect")
    async with ScriptedEngine([Read(), Send(answer), Again()]) as engine:
        client = EngineClient()
        for control in (False, True, False, True):
            response = await client.send("GET", engine.url + "/health", headers=[], control=control)
            assert response.status == 307
            response.close()
        assert not client._http.cookies.jar
        await client.aclose()
    assert len(engine.requests) == 4
    assert all(not request.values("cookie") for request in engine.requests)


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with ScriptedEngine([Read(), Send(ok()), Again()]) as engine:
        client = EngineClient()
        for control in (False, True):
            response = await client.send("GET", engine.url + "/health", headers=[], control=control)
            assert await response.read(10) == b"{}"
        await client.aclose()


@pytest.mark.parametrize("attached", [True, False])
@over_both_loops
async def test_a_slow_sink_stops_the_engine_and_loses_nothing(attached: bool) -> None:
    """Case H57. Socket buffers hold some megabytes at most; the answer has sixty-four."""
    total = 64 * 1024 * 1024
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total
    async with ScriptedEngine([Read(), Send(head + b"x" * total)]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        sink = RecordingSink()
        if attached:
            sink = RecordingSink(on_data=response.pause)
            response.attach(sink)
        before = -1
        while engine.peers[0].sent != before:
            before = engine.peers[0].sent
            await asyncio.sleep(0.1)
        assert before < total / 2
        assert len(sink.data) <= 1024 * 1024
        if not attached:
            response.attach(sink)
        async with asyncio.timeout(10):
            while not sink.over.is_set():
                if attached:
                    response.resume()
                await asyncio.sleep(0.001)
        assert len(sink.data) == total
        assert sink.endings == [None]
        response.close()
        await client.aclose()


@over_both_loops
async def test_closing_within_received_ends_it_there() -> None:
    async with ScriptedEngine([Read(), Send(stream_head() + chunk(EVENT))]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        sink = RecordingSink(on_data=response.close)
        response.attach(sink)
        async with asyncio.timeout(5):
            await engine.peers[0].closed.wait()
        assert sink.data == EVENT
        assert sink.endings == []
        assert client.statistics()[engine.url] == NOTHING
        await client.aclose()


@over_both_loops
async def test_a_client_that_closes_tells_who_still_reads() -> None:
    async with ScriptedEngine([Read(), Send(b"HTTP/1.1 200 OK\r\n\r\nhello")]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        sink = RecordingSink()
        response.attach(sink)
        await client.aclose()
        assert isinstance(sink.endings[0], EngineBroke), "an answer without a length must not look complete"
        response.close()
        with pytest.raises(EngineUnreachable):
            await post(client, engine.url)


@over_both_loops
async def test_a_stop_and_go_reader_gets_the_end_that_came_meanwhile() -> None:
    async with ScriptedEngine([Read(), Send(stream_head() + chunk(EVENT)), Sleep(0.02), Reset()]) as engine:
        client = EngineClient()
        response = await post(client, engine.url)
        sink = RecordingSink()
        response.attach(sink)
        response.pause()
        response.pause()
        await asyncio.sleep(0.05)
        response.resume()
        async with asyncio.timeout(5):
            await sink.over.wait()
        assert sink.data == EVENT
        assert isinstance(sink.endings[0], EngineBroke)
        response.close()
        response.resume()
        response.pause()
        await client.aclose()


@over_both_loops
async def test_a_reset_is_no_clean_end_of_an_answer_without_a_length_whoever_reads_it() -> None:
    script: list[Step] = [Read(), Send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello"), Sleep(0.05), Reset()]
    for size in (0, 1):  # by the event loop, and in rounds
        async with ScriptedEngine(script) as engine:
            client = EngineClient()
            response = await post(client, engine.url)
            ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            response.attach(Ending(ended))
            response.leave(size)
            assert isinstance(await asyncio.wait_for(ended, 5), EngineBroke)
            response.close()
            assert client.statistics()[engine.url].open == 0
            await client.aclose()


class Ending:
    """A sink that waits for the end."""

    def __init__(self, ended: "asyncio.Future[object]") -> None:
        self._ended = ended

    def received(self, data: bytes) -> None:
        """Is of no interest."""

    def ended(self, error: object) -> None:
        self._ended.set_result(error)
