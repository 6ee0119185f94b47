"""HTTP/1.1 connections as uvicorn treats them: one request at a time, an idle close, a half close is a disconnect."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import parse_qsl

import httptools

from app.sim.http import Page
from app.sim.performance import Ending, Performance
from app.sim.steps import page_steps

MAX_BODY = 64 * 1024 * 1024
_MAX_PIPELINED = 16


@dataclass(slots=True)
class Request:
    """One request as it came.

    Args:
        headers: names in lower case; the last of several lines counts.
        close: whether the connection ends with the answer.
        received_at: when its last byte came, on `time.monotonic`'s scale.
        closed_at: when its answer was over or its client had gone; None until then.
        finished: whether the answer was given to its end.
    """

    method: str = ""
    path: str = ""
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    close: bool = False
    received_at: float = 0.0
    closed_at: float | None = None
    finished: bool = False


class Answering(Protocol):
    """A request that is being answered."""

    @property
    def performance(self) -> Performance:
        """What is done for it."""

    def left(self) -> None:
        """The client has gone, or the server closes."""


class Host(Protocol):
    """What a connection needs of the engine."""

    def opened(self, connection: "Connection") -> float:
        """A connection was made; the seconds for which it is not read."""

    def closed(self, connection: "Connection") -> None:
        """A connection is no more."""

    def idle_limit(self) -> float:
        """Seconds for which a connection may idle after an answer."""

    def wall_clock(self) -> float:
        """Seconds of the epoch."""

    def answer(self, request: Request, transport: asyncio.Transport, over: Callable[[Ending], None]) -> Answering:
        """Answer a request; `over` is called when that is done."""


class Connection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._exchange: Answering | None = None
        self._requests: deque[Request] = deque()
        self._reading = Request()
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read, at once or after the accept delay."""
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        delay = self._host.opened(self)
        if delay:
            transport.pause_reading()
            self._timer = self._loop.call_later(delay, transport.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        """Abort what runs."""
        self._stop_timer()
        self._transport = None
        self._requests.clear()
        if self._exchange is not None:
            self._exchange.left()
            self._exchange = None
        self._host.closed(self)

    def eof_received(self) -> bool:
        """A half close is taken for a disconnect: what runs is aborted and nothing more is written."""
        if self._exchange is not None and self._transport is not None:
            self._transport.abort()
        return False

    def close(self, *, hard: bool = False) -> None:
        """End the connection; hard: without waiting for what is still to be written."""
        if self._exchange is not None:
            self._exchange.performance.cancel()
        if self._transport is not None:
            self._transport.abort() if hard else self._transport.close()

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._exchange is not None:
            self._exchange.performance.hold()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._exchange is not None:
            self._exchange.performance.release()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        self._stop_timer()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, b"Upgrades are not supported.")
        except httptools.HttpParserError:
            self._refuse(400, b"Invalid HTTP request received.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._reading = Request()
        self._body, self._size = [], 0

    def on_url(self, url: bytes) -> None:
        """The target."""
        path, _, query = url.decode("latin-1").partition("?")
        self._reading.path += path
        self._reading.query = dict(parse_qsl(query))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        self._reading.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The client may wait for a 100."""
        if self._reading.headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._size += len(body)
        if self._size <= MAX_BODY:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        request = self._reading
        request.method = self._parser.get_method().decode("latin-1")
        request.close = not self._parser.should_keep_alive()
        request.body = b"".join(self._body)
        request.received_at = self._loop.time()
        if self._size > MAX_BODY:
            self._refuse(413, b"The body is too large.")
            return
        self._requests.append(request)
        if self._exchange is None:
            self._answer_next()
        elif len(self._requests) >= _MAX_PIPELINED and self._transport is not None:
            self._transport.pause_reading()

    def _refuse(self, status: int, message: bytes) -> None:
        """Answer what is no request, and hang up."""
        if self._transport is None:
            return
        if self._exchange is None:
            page = Page(status, message, "text/plain; charset=utf-8")
            steps = page_steps(page, self._host.wall_clock(), close=True)
            self._transport.write(b"".join(step.data for step in steps))
        self._transport.close()

    def _answer_next(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or not self._requests:
            return
        request = self._requests.popleft()
        if not transport.is_reading():
            transport.resume_reading()
        self._exchange = self._host.answer(request, transport, lambda ending: self._answered(request, ending))
        self._exchange.performance.announce()

    def _answered(self, request: Request, ending: Ending) -> None:
        self._exchange = None
        if ending is Ending.CLOSED or self._transport is None:
            return
        if request.close:
            self._transport.close()
        elif self._requests:
            self._loop.call_soon(self._answer_next)
        else:
            self._timer = self._loop.call_later(self._host.idle_limit(), self._transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
