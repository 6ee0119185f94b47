"""uvicorn's HTTP/1.1 protocol with what it lacks: a bound for a head, errors as JSON, and a close that does not wait.

httptools has no limit of its own, so that a header without an end would be kept without an end. And a transport that
is closed first waits until its client has read the rest, which one that was cut for not reading never does.
"""

import asyncio
import http
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.hangup import Listen
from gateway.errors import GatewayError, HeadTooLarge, InvalidRequest
from gateway.wire import render

_NO_LINGER = struct.pack("ii", 1, 0)


def bounded_protocol(head_bytes: int) -> type[asyncio.Protocol]:
    """The protocol for uvicorn's `http`, for heads of so many bytes; what was read in one go may come on top."""
    return type("BoundedHttp", (BoundedHttp,), {"head_bytes": head_bytes})


def direct(scope: Scope, send: Send) -> Send:
    """The server's own `send` of a request, without what surrounds it on the way here; `send` if there is none."""
    own: Send = scope["state"].get("send", send)
    return own


def unsent(scope: Scope) -> Callable[[], int]:
    """Tells how many bytes written to the client its socket has not taken yet; 0 where that is not known."""
    told: Callable[[], int] = scope["state"].get("unsent", int)
    return told


def writer(scope: Scope) -> Callable[[bytes], bool]:
    """Writes a piece of a chunked body that has begun, if nothing has to be waited for; tells whether it did."""
    write: Callable[[bytes], bool] = scope["state"].get("write", never)
    return write


def listen(scope: Scope) -> Listen | None:
    """How a request hears that its client has closed the connection; None where the server does not tell."""
    own: Listen | None = scope["state"].get("listen")
    return own


def never(_data: bytes) -> bool:
    """What `writer` gives where it does not know how."""
    return False


async def abort(scope: Scope, receive: Receive) -> None:
    """Closes the request's connection at once, whatever is still to be written, and waits until it is closed."""
    close = scope["state"].get("abort")
    if close is None:
        return
    close()
    while (await receive())["type"] != "http.disconnect":
        pass


def _write(cycle: RequestResponseCycle, write: Callable[[bytes], None], data: bytes) -> bool:
    """What the cycle's `send` does with a piece of the body, without a message and a coroutine."""
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_complete or not cycle.chunked_encoding:
        return False
    write(b"%x\r\n%b\r\n" % (len(data), data))
    return True


class HeadFirst:
    """A transport that writes the head of a response together with what follows it in the same turn of the event loop.

    The server writes them one by one, and each write is a system call and a segment. Everything else is the
    transport's own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Writes, or keeps until the end of this turn what begins as a response."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Closes after everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class BoundedHttp(HttpToolsProtocol):
    """One client connection. `scope["state"]` holds what `abort`, `direct`, `listen`, `unsent` and `writer` need."""

    head_bytes: int
    _in_head = True
    _completed = False
    _head = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listeners: set[Callable[[], None]] = set()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(cast("asyncio.Transport", HeadFirst(transport, self.loop)))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        for tell in tuple(self._listeners):
            tell()

    def _listen(self, tell: Callable[[], None]) -> Callable[[], None]:
        if self.transport.is_closing():
            self.loop.call_soon(tell)
        self._listeners.add(tell)
        return partial(self._listeners.discard, tell)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        self._completed = False
        super().data_received(data)
        if self._in_head and not self._completed:  # else what belongs to the next head is not known
            self._head += len(data)
            self._bound(self._head)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["state"]["abort"] = self._abort

    def on_url(self, url: bytes) -> None:
        """A part of the target. One of more than 64 KB cannot be read, and would be no HTTP."""
        super().on_url(url)
        self._bound(len(self.url))

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._in_head = False
        super().on_headers_complete()
        self.scope["state"]["send"] = self.cycle.send
        self.scope["state"]["listen"] = self._listen
        self.scope["state"]["unsent"] = self.transport.get_write_buffer_size
        self.scope["state"]["write"] = partial(_write, self.cycle, self.transport.write)

    def on_message_complete(self) -> None:
        """It is complete."""
        self._in_head, self._completed, self._head = True, True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP."""
        self._refuse(InvalidRequest(msg))

    def _bound(self, size: int) -> None:
        if size > self.head_bytes:
            self._refuse(HeadTooLarge(f"The request's line and headers are larger than {self.head_bytes} bytes."))

    def _abort(self) -> None:
        """Closes with a reset: in order, the system would keep what the client has not read for as long as it likes."""
        with suppress(OSError, ValueError):  # the client was quicker, and nothing is left to be set
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _refuse(self, error: GatewayError) -> None:
        """Answers and closes; in the middle of another answer it only closes."""
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            answer = render.answer(error)
            head = (
                f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}\r\n"
                f"content-type: {answer.content_type}\r\ncontent-length: {len(answer.body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + answer.body)
        self.transport.close()
