"""An engine that plays a script: a raw TCP server which sends exactly the bytes it is told to.

Each connection plays a script of its own, from `scripts` in order, the last one for all that come after:

    async with ScriptedEngine([Read(), Send(ok(b"{}")), Again()]) as engine:
        ...  # ask engine.url
    assert engine.requests[0].target == "/v1/models"

A script that ends leaves the connection open and silent. Peers that leave end the script and are recorded.
"""

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Read:
    """Wait for a whole request and record it."""


@dataclass(frozen=True)
class Send:
    """Send bytes, `cut` at a time (0: all at once), `gap` seconds between the pieces."""

    data: bytes
    cut: int = 0
    gap: float = 0.0


@dataclass(frozen=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Fin:
    """Close in order; the peer reads an end."""


@dataclass(frozen=True)
class Reset:
    """Close at once; the peer reads an error."""


@dataclass(frozen=True)
class Again:
    """Play the script from its start."""


Step = Read | Send | Sleep | Fin | Reset | Again


@dataclass(frozen=True)
class Request:
    """A request as it came; names of headers in lower case, in order."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for other, value in self.headers if other == name]


@dataclass(eq=False)
class Peer:
    """One connection, as the engine sees it."""

    requests: list[Request] = field(default_factory=list)
    sent: int = 0  # bytes that the engine has handed to its socket
    closed: asyncio.Event = field(default_factory=asyncio.Event)  # the peer closed, in order or not
    closed_at: float | None = None  # of the event loop's clock


def ok(body: bytes = b"{}", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer with a Content-Length."""
    lines = [b"HTTP/1.1 " + status, b"Content-Type: application/json", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def stream_head(*headers: bytes) -> bytes:
    """The head of an event stream, as vLLM sends it."""
    lines = [b"HTTP/1.1 200 OK", b"content-type: text/event-stream; charset=utf-8", b"transfer-encoding: chunked"]
    return b"\r\n".join([*lines, *headers]) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk; that of no bytes ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class ScriptedEngine:
    """The server; use it with `async with`."""

    def __init__(self, *scripts: Sequence[Step], accept_delay: float = 0.0, backlog: int = 128) -> None:
        """`accept_delay`: seconds before each connection is accepted."""
        self.peers: list[Peer] = []
        self._scripts = scripts or ([],)
        self._accept_delay = accept_delay
        self._backlog = backlog
        self._socket = socket.socket()
        self._news = asyncio.Event()
        self._accepted: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """`http://host:port`."""
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    @property
    def requests(self) -> list[Request]:
        """Every request of every connection, those of a connection together."""
        return [request for peer in self.peers for request in peer.requests]

    @property
    def open_peers(self) -> int:
        """Connections that the peer has not closed."""
        return sum(not peer.closed.is_set() for peer in self.peers)

    async def asked(self, count: int) -> None:
        """Wait until `count` requests have come."""
        while len(self.requests) < count:
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> Self:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(self._backlog)
        self._socket.setblocking(False)
        self._start(self._accept())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for accepted in (*self._accepted, self._socket):
            accepted.close()

    def _start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count():
            if self._accept_delay:
                await asyncio.sleep(self._accept_delay)
            accepted, _ = await loop.sock_accept(self._socket)
            self._accepted.append(accepted)
            self.peers.append(Peer())
            script = self._scripts[min(number, len(self._scripts) - 1)]
            self._start(_Play(accepted, script, self.peers[-1], self._news).run())


class _Play:
    """A script on one connection; it looks for the peer's end at every wait."""

    def __init__(self, accepted: socket.socket, script: Sequence[Step], peer: Peer, news: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = accepted
        self._script = script
        self._peer = peer
        self._news = news
        self._buffer = bytearray()
        self._more = asyncio.Event()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def run(self) -> None:
        listener = asyncio.ensure_future(self._listen())
        player = asyncio.ensure_future(self._play())
        try:
            await asyncio.wait([listener, player], return_when=asyncio.FIRST_COMPLETED)
            if player.done() and not player.result():
                await listener
        finally:
            for task in (listener, player):
                task.cancel()
            await asyncio.gather(listener, player, return_exceptions=True)
            self._socket.close()

    async def _listen(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self._loop.sock_recv(self._socket, 65536):
                self._buffer += data
                self._more.set()
        self._peer.closed_at = self._loop.time()
        self._peer.closed.set()

    async def _play(self) -> bool:
        """True when the script has closed the connection itself."""
        position = 0
        while position < len(self._script):
            step = self._script[position]
            position = 0 if isinstance(step, Again) else position + 1
            if isinstance(step, Fin):
                self._socket.shutdown(socket.SHUT_WR)
                return False
            if isinstance(step, Reset):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return True
            await self._do(step)
        return False

    async def _do(self, step: Step) -> None:
        match step:
            case Read():
                self._peer.requests.append(await self._request())
                self._news.set()
            case Send(data, cut, gap):
                with contextlib.suppress(ConnectionError):
                    for start in range(0, len(data), cut or len(data) or 1):
                        await self._send(data[start : start + (cut or len(data))])
                        await asyncio.sleep(gap)
            case Sleep(seconds):
                await asyncio.sleep(seconds)

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            await self._loop.sock_sendall(self._socket, view[:65536])
            self._peer.sent += len(view[:65536])
            view = view[65536:]

    async def _request(self) -> Request:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            await self._wait()
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        pairs = [line.partition(":")[::2] for line in lines]
        headers = [(name.lower(), value.strip()) for name, value in pairs]
        length = int(dict(headers).get("content-length", "0"))
        while len(self._buffer) < end + 4 + length:
            await self._wait()
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        method, target, _ = first.split(" ")
        return Request(method, target, headers, body)

    async def _wait(self) -> None:
        self._more.clear()
        await self._more.wait()
