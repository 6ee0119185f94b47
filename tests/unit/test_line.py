"""The head of a response, written past the server: byte for byte what the server writes, or left to it."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.line import Line, head_of

DATE = (b"date", b"Mon, 30 Nov 2026 10:00:00 GMT")
SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-tokenlane-lane", b"batch")]
JSON = [(b"content-type", b"application/json"), (b"content-length", b"2")]


class PlayedTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def cycle_on(transport: PlayedTransport, method: str = "POST", *, keep_alive: bool = True) -> RequestResponseCycle:
    logger = logging.getLogger("test")
    return RequestResponseCycle(
        scope={"method": method},  # type: ignore[typeddict-item]
        transport=transport,
        flow=FlowControl(transport),
        logger=logger,
        access_logger=logger,
        access_log=False,
        default_headers=[DATE],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


def start(status: int, fields: list[tuple[bytes, bytes]]) -> Any:
    return {"type": "http.response.start", "status": status, "headers": fields}


def body(data: bytes, *, more: bool = False) -> Any:
    return {"type": "http.response.body", "body": data, "more_body": more}


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize(
    ("status", "fields", "pieces"),
    [
        (200, SSE, [b"data: a\n\n", b"data: b\n\n", b""]),
        (200, JSON, [b"{}"]),
        (503, JSON, [b"{}"]),
        (204, [], [b""]),
        (304, [], [b""]),
        (200, [(b"connection", b"close"), *JSON], [b"{}"]),
        (200, [(b"transfer-encoding", b"chunked")], [b"a", b""]),
        (200, [(b"content-length", b"0")], [b""]),
    ],
)
async def test_a_response_by_the_line_is_byte_for_byte_the_servers(
    method: str, status: int, fields: list[tuple[bytes, bytes]], pieces: list[bytes], *, keep_alive: bool
) -> None:
    own, servers = PlayedTransport(), PlayedTransport()
    cycle, reference = (cycle_on(each, method, keep_alive=keep_alive) for each in (own, servers))
    line = Line(cycle, own)
    for message in [start(status, fields), *(body(p, more=p is not pieces[-1]) for p in pieces)]:
        await line.send(message)
        await reference.send(message)
    assert own.written == servers.written
    assert (cycle.response_complete, own.closing) == (reference.response_complete, servers.closing)


@pytest.mark.parametrize("field", [(b"a b", b"c"), (b"a", b"b\r\nc: d"), (b"a", b"\0"), (b"a:", b"b")])
async def test_a_field_that_http_does_not_allow_is_the_servers_to_refuse(field: tuple[bytes, bytes]) -> None:
    assert head_of(200, [field]) is None
    transport = PlayedTransport()
    with pytest.raises(RuntimeError, match="Invalid HTTP header"):
        await Line(cycle_on(transport), transport).send(start(200, [field]))
    assert not transport.written


async def test_a_body_of_another_length_than_its_head_says_is_an_error_as_with_the_server() -> None:
    transport = PlayedTransport()
    line = Line(cycle_on(transport), transport)
    await line.send(start(200, JSON))
    with pytest.raises(RuntimeError, match="longer"):
        await line.send(body(b"{}}"))


async def test_nothing_is_written_to_a_client_that_is_gone() -> None:
    transport = PlayedTransport()
    line = Line(cycle_on(transport), transport)
    line.lost()
    await line.send(start(200, SSE))
    await line.send(body(b"data: a\n\n"))
    assert not transport.written


async def test_the_head_waits_while_the_clients_socket_is_full() -> None:
    transport = PlayedTransport()
    cycle = cycle_on(transport)
    cycle.flow.pause_writing()
    sending = asyncio.create_task(Line(cycle, transport).send(start(200, SSE)))
    await asyncio.sleep(0)
    assert not transport.written
    cycle.flow.resume_writing()
    await sending
    assert transport.written.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
