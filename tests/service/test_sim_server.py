"""The simulated engine on real sockets: HTTP as uvicorn does it, faults as a client meets them, seats given back."""

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
import uvloop

from app.sim import SimEngine, SimSettings, serve

QUICK = SimSettings(ttft_ms=1, itl_ms=1, tokens=6)
CHAT = "/v1/chat/completions"


@pytest.fixture
async def engine() -> AsyncIterator[SimEngine]:
    async with SimEngine(QUICK) as engine:
        yield engine
    assert (engine.running, engine.waiting, engine.connections) == (0, 0, 0)


def request(
    path: str = CHAT, *, stream: bool = True, headers: dict[str, str] | None = None, method: str = "POST", **body: Any
) -> bytes:
    message = {"messages": [{"role": "user", "content": "hi"}], "stream": stream} | body
    content = json.dumps(message).encode() if method == "POST" else b""
    lines = {"host": "sim", "content-type": "application/json", "content-length": str(len(content))} | (headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(end), 5)

    async def rest(self) -> bytes:
        """All up to the end of the connection."""
        return await asyncio.wait_for(self.reader.read(), 5)

    async def stays_silent(self, seconds: float = 0.15) -> bool:
        try:
            await asyncio.wait_for(self.reader.read(1), seconds)
        except TimeoutError:
            return True
        return False


@contextlib.asynccontextmanager
async def connected(engine: SimEngine) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", engine.port, limit=2**22)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def faulty(engine: SimEngine, fault: str, **options: Any) -> bytes:
    """All that a client of one request gets until the connection ends."""
    async with connected(engine) as client:
        client.send(request(headers={"x-sim-fault": fault, "connection": "close"}, **options))
        return await client.rest()


async def settled(engine: SimEngine, running: int, waiting: int = 0) -> None:
    await asyncio.wait_for(engine.settled(running, waiting), 5)


async def test_a_stream_has_the_head_of_uvicorn_and_an_event_is_a_chunk(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(request())
        head = await client.until(b"\r\n\r\n")
        body = await client.until(b"0\r\n\r\n")
    names = [line.partition(b":")[0] for line in head.split(b"\r\n")[1:-2]]
    assert names == [b"date", b"server", b"content-type", b"vary", b"transfer-encoding"]
    assert b"\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n" in head
    while body != b"0\r\n\r\n":
        size, _, rest = body.partition(b"\r\n")
        event, body = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        assert event.startswith(b"data: ")
        assert event.index(b"\n\n") == len(event) - 2


async def test_a_connection_serves_several_requests_also_sent_at_once(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(request() * 3)
        for _ in range(3):
            assert (await client.until(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
    assert [one.finished for one in engine.requests] == [True] * 3


async def test_an_idle_connection_is_closed_after_its_answer_as_vllm_does(engine: SimEngine) -> None:
    """Case H35."""
    engine.set(keep_alive_s=0.05)
    async with connected(engine) as client:
        client.send(request())
        await client.until(b"0\r\n\r\n")
        assert await client.rest() == b""


async def test_an_old_client_gets_chunks_and_the_end_of_the_connection(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = await client.rest()
    assert b"\r\nconnection: close\r\ntransfer-encoding: chunked\r\n" in answer
    assert answer.endswith(b"0\r\n\r\n")


async def test_what_is_no_http_is_refused(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("GET", "/nope", 404, "Not Found"),
        ("GET", CHAT, 405, "Method Not Allowed"),
        ("DELETE", "/health", 405, "Method Not Allowed"),
        ("GET", "/v1/models/x", 404, "Not Found"),
    ],
)
async def test_a_path_or_method_that_is_not_there_is_told_as_fastapi_tells_it(
    engine: SimEngine, method: str, path: str, status: int, detail: str
) -> None:
    async with httpx.AsyncClient(base_url=engine.url) as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.json()) == (status, {"detail": detail})


async def test_a_head_request_has_no_body(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(request("/health", method="HEAD") + request("/version", method="GET"))
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await client.until(b"}") == b'{"version":"0.32.0"}'


async def test_probes_and_counts_are_told(engine: SimEngine) -> None:
    async with httpx.AsyncClient(base_url=engine.url) as client:
        await client.post(CHAT, json={"messages": [{"role": "user", "content": "hi"}]})
        health, metrics = await client.get("/health"), await client.get("/metrics")
        stats = (await client.get("/sim/stats")).json()
    assert (health.status_code, health.content, "content-type" in health.headers) == (200, b"", False)
    assert 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="gpt-oss-20b"} 1.0' in metrics.text
    assert 'vllm:num_requests_running{engine="0",model_name="gpt-oss-20b"} 0.0' in metrics.text
    assert (stats["generation_tokens"], stats["finished"]["stop"]) == (7, 1)
    assert [one.path for one in engine.requests] == [CHAT, "/health", "/metrics"]


async def test_text_becomes_tokens_and_tokens_become_the_text(engine: SimEngine) -> None:
    async with httpx.AsyncClient(base_url=engine.url) as client:
        told = (await client.post("/tokenize", json={"prompt": "Hello 你好"})).json()
        back = await client.post("/detokenize", json={"tokens": told["tokens"]})
        unknown = await client.post("/detokenize", json={"tokens": [99_999_999]})
    assert (told["count"], back.json()) == (len(told["tokens"]), {"prompt": "Hello 你好"})
    assert unknown.status_code == 400


@pytest.mark.parametrize("half", [False, True], ids=["closed", "half closed"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_seat_at_once(engine: SimEngine, stream: bool, half: bool) -> None:
    """Case H2."""
    async with connected(engine) as client:
        client.send(request(stream=stream, headers={"x-sim-itl-ms": "60000"}))
        await settled(engine, 1)
        if half:
            client.writer.write_eof()
        else:
            client.writer.close()
        await settled(engine, 0)
    assert not engine.requests[0].finished
    assert engine.requests[0].closed_at is not None


async def test_a_client_that_leaves_the_queue_lets_the_next_one_move_up(engine: SimEngine) -> None:
    engine.set(max_num_seqs=1)
    async with connected(engine) as first, connected(engine) as second, connected(engine) as third:
        first.send(request(headers={"x-sim-itl-ms": "60000"}))
        await settled(engine, 1)
        second.send(request())
        await settled(engine, 1, 1)
        third.send(request())
        await settled(engine, 1, 2)
        second.writer.close()
        await settled(engine, 1, 1)
        first.writer.close()
        assert b"[DONE]" in await third.until(b"0\r\n\r\n")


async def test_a_waiting_stream_has_its_head_and_nothing_else(engine: SimEngine) -> None:
    engine.set(max_num_seqs=1)
    async with connected(engine) as first, connected(engine) as second:
        first.send(request(headers={"x-sim-itl-ms": "60000"}))
        await settled(engine, 1)
        second.send(request())
        await second.until(b"\r\n\r\n")
        assert await second.stays_silent()


async def test_a_lower_priority_field_goes_first(engine: SimEngine) -> None:
    engine.set(max_num_seqs=1)
    order: list[int] = []

    async def ask(priority: int) -> None:
        async with connected(engine) as client:
            client.send(request(priority=priority))
            await client.until(b"0\r\n\r\n")
            order.append(priority)

    async with connected(engine) as blocker, asyncio.TaskGroup() as group:
        blocker.send(request(headers={"x-sim-itl-ms": "60000"}))
        await settled(engine, 1)
        for waiting, priority in enumerate([5, 0, -3], 1):
            group.create_task(ask(priority))
            await settled(engine, 1, waiting)
        blocker.writer.close()
    assert order == [-3, 0, 5]


async def test_a_full_queue_is_refused_at_once(engine: SimEngine) -> None:
    engine.set(max_num_seqs=1, max_num_queued=1)
    async with connected(engine) as first, connected(engine) as second:
        first.send(request(headers={"x-sim-itl-ms": "60000"}))
        await settled(engine, 1)
        second.send(request())
        await settled(engine, 1, 1)
        answer = await faulty(engine, "no_done")
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after" not in answer


async def test_a_paused_engine_is_silent_and_goes_on_where_it_stopped(engine: SimEngine) -> None:
    engine.set(itl_ms=5, tokens=40)
    async with connected(engine) as client, httpx.AsyncClient(base_url=engine.url) as control:
        client.send(request())
        await client.until(b'"content":" is"')
        assert (await control.post("/pause?mode=keep")).json() == {"status": "paused"}
        assert (await control.get("/is_paused")).json() == {"is_paused": True}
        while not await client.stays_silent(0.1):
            pass
        assert (await control.post("/resume")).json() == {"status": "resumed"}
        assert (await client.until(b"0\r\n\r\n")).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_aborted_requests_finish_with_abort_usage_and_done(engine: SimEngine) -> None:
    async with connected(engine) as client, httpx.AsyncClient(base_url=engine.url) as control:
        client.send(request(headers={"x-sim-itl-ms": "60000"}, stream_options={"include_usage": True}))
        await client.until(b'"content":"This"')
        assert (await control.post("/abort_requests")).json() == {"status": "aborted", "aborted": 1}
        rest = await client.until(b"0\r\n\r\n")
    assert b'"finish_reason":"abort","stop_reason":null' in rest
    assert rest.index(b'"usage"') < rest.index(b"[DONE]")


async def test_closing_the_engine_ends_its_streams_and_refuses_new_connections() -> None:
    engine = SimEngine(QUICK)
    await engine.start()
    port = engine.port
    async with connected(engine) as client:
        client.send(request(headers={"x-sim-itl-ms": "60000"}))
        await client.until(b'"content":"This"')
        await engine.close()
        assert not (await client.rest()).endswith(b"0\r\n\r\n")
    assert (engine.running, engine.connections) == (0, 0)
    with pytest.raises(OSError, match=r"refused|failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_settings_change_at_run_time_and_wrong_ones_are_refused(engine: SimEngine) -> None:
    async with httpx.AsyncClient(base_url=engine.url) as control:
        changed = await control.post("/sim/set", json={"tokens": 2, "fault": "status:429"})
        refused = [
            (await control.post("/sim/set", json=body)).status_code
            for body in ({"tokens": -1}, {"nope": 1}, [1], {"fault": "explode"})
        ]
        limited = await control.post(CHAT, json={"messages": [{"role": "user", "content": "hi"}]})
    assert (changed.json()["tokens"], engine.settings.tokens) == (2, 2)
    assert refused == [400] * 4
    assert limited.status_code == 429


async def test_a_stamp_is_the_time_of_sending(engine: SimEngine) -> None:
    before = time.monotonic_ns() // 1000
    async with connected(engine) as client:
        client.send(request(headers={"x-sim-stamp": "1"}))
        body = await client.until(b"0\r\n\r\n")
    stamps = [int(part[:16], 16) for part in body.split(b'"content":" @')[1:]]
    assert len(stamps) == 6
    assert before <= stamps[0]
    assert stamps == sorted(stamps)
    assert stamps[-1] <= time.monotonic_ns() // 1000


async def test_a_burst_comes_at_one_time_and_the_next_a_tick_later(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(request(headers={"x-sim-stamp": "1", "x-sim-burst": "3", "x-sim-itl-ms": "50"}))
        body = await client.until(b"0\r\n\r\n")
    stamps = [int(part[:16], 16) for part in body.split(b'"content":" @')[1:]]
    assert len(stamps) == 6
    assert stamps[3] - stamps[2] > 5 * (stamps[2] - stamps[0])


async def test_a_reader_that_stops_holds_the_stream_and_gets_all_of_it_later(engine: SimEngine) -> None:
    size, choices = 1_000_000, 30
    async with connected(engine) as client:
        client.send(request(n=choices, headers={"x-sim-script": f"long_event:{size}", "x-sim-itl-ms": "0"}))
        await settled(engine, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.settled(0), 0.3)
        received = bytearray()
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += await client.reader.read(2**20)
    assert len(received) > size * choices
    assert engine.requests[0].finished


async def test_a_connection_can_be_left_unread_for_a_while(engine: SimEngine) -> None:
    engine.set(accept_delay_ms=200)
    async with connected(engine) as client:
        client.send(request("/version", method="GET"))
        assert await client.stays_silent(0.1)
        await client.until(b"}")


async def test_cuts_end_the_connection_without_the_last_chunk(engine: SimEngine) -> None:
    between, within = await faulty(engine, "cut@2"), await faulty(engine, "cut_event@2")
    assert between.endswith(b"\n\n\r\n")
    assert between.count(b'"content":') == 3
    assert not within.endswith(b"\r\n")
    assert (engine.running, engine.requests[0].finished) == (0, False)


async def test_a_reset_is_a_reset(engine: SimEngine) -> None:
    with pytest.raises(ConnectionResetError):
        await faulty(engine, "reset@1")


@pytest.mark.parametrize("fault", ["stall@1", "silence_head", "error_event_open@1"])
async def test_a_silent_engine_keeps_the_connection_until_the_client_leaves(engine: SimEngine, fault: str) -> None:
    async with connected(engine) as client:
        client.send(request(headers={"x-sim-fault": fault}))
        while not await client.stays_silent():
            pass
        assert engine.connections == 1
    await settled(engine, 0)


async def test_an_engine_can_close_before_its_head_or_speak_no_http(engine: SimEngine) -> None:
    assert await faulty(engine, "close_before_head") == b""
    assert b"HTTP/1.1" not in await faulty(engine, "bad_http")


async def test_a_status_fault_is_an_answer_and_the_connection_stays(engine: SimEngine) -> None:
    async with connected(engine) as client:
        client.send(request(headers={"x-sim-fault": "status:503;retry-after=3"}) + request())
        assert b"\r\nretry-after: 3\r\n" in await client.until(b"}}")
        assert (await client.until(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_the_http_of_an_engine_can_be_odd(engine: SimEngine) -> None:
    huge = await faulty(engine, "huge_header")
    lie = await faulty(engine, "content_length_lie")
    single = await faulty(engine, "one_byte")
    assert len(huge.partition(b"\r\n\r\n")[0]) > 200_000
    assert b"content-length: 1000000\r\n" in lie
    assert len(lie) < 10_000
    assert single.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_a_gzipped_answer_is_read_by_a_client_that_asked_for_it(engine: SimEngine) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(base_url=engine.url, headers={"x-sim-fault": "gzip"}) as client:
        for stream in (True, False):
            answer = await client.post(CHAT, json=body | {"stream": stream})
            assert answer.headers["content-encoding"] == "gzip"
            assert "tokenlane" in answer.text


async def test_as_a_program_it_runs_until_it_is_told_to_end(unused_port: int) -> None:
    program = asyncio.create_task(serve(QUICK, "127.0.0.1", unused_port))
    async with asyncio.timeout(5), httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_port}") as client:
        while not program.done():
            with contextlib.suppress(httpx.ConnectError):
                assert (await client.get("/health")).status_code == 200
                signal.raise_signal(signal.SIGTERM)
                await program
    assert program.exception() is None


@pytest.mark.parametrize(
    "check",
    [
        test_a_stream_has_the_head_of_uvicorn_and_an_event_is_a_chunk,
        test_a_reset_is_a_reset,
        test_cuts_end_the_connection_without_the_last_chunk,
        test_a_reader_that_stops_holds_the_stream_and_gets_all_of_it_later,
        test_a_burst_comes_at_one_time_and_the_next_a_tick_later,
        test_what_is_no_http_is_refused,
    ],
)
def test_it_is_the_same_on_uvloop(check: Callable[[SimEngine], Awaitable[None]]) -> None:
    async def run() -> None:
        async with SimEngine(QUICK) as engine:
            await check(engine)
        assert (engine.running, engine.waiting, engine.connections) == (0, 0, 0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
