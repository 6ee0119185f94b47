"""What a request may ask of the connection it came on, beside ASGI.

ASGI has no close at once, no word for bytes that the client has not taken, no call when the client leaves, and it wants
a message and a coroutine for every piece of a body. Where the server is ours it puts a `Line` into the request's scope.
"""

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from app.hangup import Listen

_NO_LINGER = struct.pack("ii", 1, 0)
_BODILESS = frozenset({204, 304})
_FRAMING = frozenset({b"connection", b"transfer-encoding"})


def _found_by(pattern: re.Pattern[bytes]) -> bytes:
    """The bytes that a pattern of the server's finds."""
    return bytes(byte for byte in range(256) if pattern.search(bytes((byte,))))


_IN_NO_NAME = _found_by(HEADER_RE)
_IN_NO_VALUE = _found_by(HEADER_VALUE_RE)


class Line:
    """The line of one request, until its response is complete or its client is gone. Then it does nothing any more.

    It lets go of the connection at its end, so that a request leaves no cycle of references behind.
    """

    __slots__ = ("_cycle", "_listeners", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle: RequestResponseCycle | None = cycle
        self._transport = transport
        self._listeners: list[Callable[[], None]] = []

    async def send(self, message: Message) -> None:
        """ASGI's `send`. It writes a head in one go where that is all: the server looks at each field by itself."""
        cycle = self._cycle
        if cycle is None or (message["type"] == "http.response.start" and self._start(cycle, message)):
            return
        await cycle.send(cast("Any", message))

    def _start(self, cycle: RequestResponseCycle, message: Message) -> bool:
        """Writes a head as the server would, if nothing has to be waited for; tells whether it did."""
        if cycle.response_started or cycle.disconnected or cycle.flow.write_paused or not cycle.keep_alive:
            return False
        fields = [*cycle.default_headers, *message["headers"]]
        head = head_of(message["status"], fields) if fields else None
        if head is None or cycle.scope["method"] == "HEAD":
            return False
        cycle.response_started, cycle.waiting_for_100_continue = True, False
        length = dict(fields).get(b"content-length")
        cycle.chunked_encoding = length is None
        cycle.expected_content_length = int(length or 0)
        self._transport.write(head)
        return True

    def write(self, data: bytes) -> bool:
        """Writes a piece of a chunked body that has begun, if nothing has to be waited for; tells whether it did."""
        cycle = self._cycle
        if cycle is None or cycle.flow.write_paused or cycle.disconnected or not cycle.chunked_encoding:
            return False
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def unsent(self) -> int:
        """How many bytes that were written the client's socket has not taken yet."""
        return 0 if self._cycle is None else self._transport.get_write_buffer_size()

    def listen(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Calls `tell` when the client is gone, soon if it is already. What it returns undoes that."""
        if self._transport.is_closing():
            asyncio.get_running_loop().call_soon(tell)
        listeners = self._listeners
        listeners.append(tell)
        return lambda: listeners.remove(tell)

    def abort(self) -> None:
        """Closes with a reset: in order, the system would keep what the client has not read for as long as it likes."""
        own = self._transport.get_extra_info("socket")
        if own is not None:  # else the client was quicker
            with suppress(OSError, ValueError):
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def lost(self) -> None:
        """The client is gone. The server tells that only to the last request of those that came without waiting."""
        if self._cycle is not None:
            self._cycle.disconnected = True
            self._cycle.message_event.set()
        for tell in tuple(self._listeners):
            tell()
        self.end()

    def end(self) -> None:
        """The response is complete."""
        self._cycle = None


def by_line(app: ASGIApp) -> ASGIApp:
    """The application, for a server whose requests have lines: what it sends goes by the line."""
    return lambda scope, receive, _send: app(scope, receive, scope["state"]["line"].send)


def head_of(status: int, fields: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """The head of a response whose connection stays open; None where the server has to look at it.

    Args:
        status: HTTP's.
        fields: at least one, names in lower case. Without a `content-length` the body is chunked.
    """
    names, values = zip(*fields, strict=True)
    if status < 200 or status in _BODILESS or not _FRAMING.isdisjoint(names):
        return None
    name, value = b"".join(names), b"".join(values)
    if name.translate(None, _IN_NO_NAME) != name or value.translate(None, _IN_NO_VALUE) != value:
        return None
    framing = b"\r\n\r\n" if b"content-length" in names else b"\r\ntransfer-encoding: chunked\r\n\r\n"
    return STATUS_LINE[status] + b"\r\n".join(map(b": ".join, fields)) + framing


def line_of(scope: Scope) -> Line | None:
    """The line of a request, None where the server is another one."""
    line: Line | None = scope["state"].get("line")
    return line


def listen(scope: Scope) -> Listen | None:
    """How a request hears that its client has left; None where only ASGI's `receive` tells."""
    line = line_of(scope)
    return None if line is None else line.listen


async def abort(scope: Scope, receive: Receive) -> None:
    """Closes the request's connection at once, whatever is still to be written, and waits until it is closed."""
    line = line_of(scope)
    if line is None:
        return
    line.abort()
    while (await receive())["type"] != "http.disconnect":
        pass


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

    def is_closing(self) -> bool:
        """As the transport has it: this and what follows are asked for too often for the line above."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """As the transport has it."""
        return self._transport.get_write_buffer_size()

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

    def lost(self) -> None:
        """The connection is closed: lets go of the transport, which knows its protocol, which knows this."""
        self._head = b""
        self._transport = _CLOSED

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class _Closed(asyncio.Transport):
    """What is left of a transport whose connection is closed."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """It is."""

    abort = pause_reading = resume_reading = close

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody reads it."""

    def get_write_buffer_size(self) -> int:
        return 0


_CLOSED = _Closed()
