"""uvicorn's HTTP/1.1 protocol with what it lacks: a bound for a head, errors as JSON, and a close that does not wait.

httptools has no limit of its own, so that a header without an end would be kept without an end. And a transport that
is closed first waits until its client has read the rest, which one that was cut for not reading never does.
"""

import asyncio
import http
from functools import partial
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.line import HeadFirst, Line, by_line
from gateway.errors import GatewayError, HeadTooLarge, InvalidRequest
from gateway.wire import render

_OF_AN_UPGRADE = frozenset({b"upgrade", b"http2-settings"})


def _rest_of(connection: bytes) -> bytes:
    """What a `Connection` field says beside the upgrade."""
    options = [option.strip() for option in connection.split(b",")]
    return b", ".join(option for option in options if option.lower() not in _OF_AN_UPGRADE)


def bounded_protocol(head_bytes: int) -> type[asyncio.Protocol]:
    """The protocol for uvicorn's `http`, for heads of so many bytes; what was read in one go may come on top."""
    return type("BoundedHttp", (BoundedHttp,), {"head_bytes": head_bytes})


class BoundedHttp(HttpToolsProtocol):
    """One client connection. Each request's scope has a `Line`."""

    head_bytes: int
    _in_head = True
    _completed = False
    _moved = False
    _head = 0
    """Bytes of a head, of fields behind a body, or of what frames one, that have come since something came of them."""
    _line: Line | None = None
    """Of the request whose head was read last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lines: set[Line] = set()
        self.app = cast("Any", by_line(cast("Any", self.app)))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(cast("asyncio.Transport", HeadFirst(transport, self.loop)))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        for line in tuple(self._lines):
            self._lines.discard(line)
            line.lost()
        cast("HeadFirst", self.transport).lost()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        self._completed = self._moved = False
        self._unset_keepalive_if_required()
        self._parse(data)
        if not (self._completed or self._moved):  # else what belongs to the next head is not known
            self._head += len(data)
            self._bound(self._head)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if any(name == b"upgrade" for name, _ in self.headers):
                self._parse_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Reads the request again as what it is where no other protocol is spoken (RFC 9110, 7.8).

        The parser takes what follows the head of an upgrade for the other protocol's. Java's client offers HTTP/2 with
        each first request.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        fields = [(name, _rest_of(value) if name == b"connection" else value) for name, value in self.headers]
        fields = [(name, value) for name, value in fields if value and name not in _OF_AN_UPGRADE]
        lines = [b"%b %b HTTP/%b" % (method, self.url, version), *(b"%b: %b" % field for field in fields)]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the server's own
        self._parse(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def on_url(self, url: bytes) -> None:
        """A part of the target. One of more than 64 KB cannot be read, and would be no HTTP."""
        super().on_url(url)
        self._bound(len(self.url))

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._moved, self._head = True, 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        if self._upgrades:
            return
        self._in_head, self._moved, self._head = False, True, 0
        self.headers = []  # fields behind the body are none of the request's headers (RFC 9110, 6.5.1)
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope:  # an upgrade, which is another protocol's
            return
        line = self._line = self.scope["state"]["line"] = Line(cycle, self.transport)
        cycle.on_response = partial(self._responded, line)
        self._lines.add(line)

    def _responded(self, line: Line) -> None:
        self._lines.discard(line)
        line.end()
        self.on_response_complete()

    def on_message_complete(self) -> None:
        """It is complete."""
        if self._upgrades:
            return
        self._in_head, self._completed, self._head = True, True, 0
        super().on_message_complete()

    @property
    def _upgrades(self) -> bool:
        """Whether the request offers another protocol: it is read again without that."""
        return self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers)

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP."""
        self._refuse(InvalidRequest(msg))

    def _bound(self, size: int) -> None:
        if size > self.head_bytes:
            self._refuse(HeadTooLarge(f"The request's line and headers are larger than {self.head_bytes} bytes."))

    def _refuse(self, error: GatewayError) -> None:
        """Answers and closes; where another request has no answer yet, or not all of it, it only closes."""
        if self.transport.is_closing():
            return
        unanswered = self._lines if self._in_head else self._lines - {self._line}
        if not unanswered and (self._in_head or not (self.cycle and self.cycle.response_started)):
            answer = render.answer(error)
            head = (
                f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}\r\n"
                f"content-type: {answer.content_type}\r\ncontent-length: {len(answer.body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + answer.body)
        self.transport.close()
