"""One request over a raw socket: a client that reads, reads slowly, stops, leaves or closes its half."""

import asyncio
import contextlib
import socket
import struct
import time

import httptools

from benchmarks.chaos.asks import Ask, Behaviour
from benchmarks.chaos.oracle import Answer

GIVES_UP = 40.0
"""Seconds after which a client takes its request for lost."""
STOPS_FOR = 6.0
"""Seconds for which a client that stops reading does not read: more than the gateway's write deadline."""
SMALL, LARGE = 4096, 2**16
"""Bytes read at once, and of the socket's buffer, of a client that is slow and of another."""


class Client:
    """A client with at most one connection, which it keeps for its next request where HTTP allows it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def perform(self, ask: Ask) -> Answer:
        """Asks, and behaves as it should; never raises for what the network does."""
        slow = ask.behaviour in {Behaviour.SLOW, Behaviour.STOP}
        if slow:
            self.close()
        answer = _Reading()
        started = time.monotonic()
        given_up = False
        try:
            async with asyncio.timeout(GIVES_UP):
                reader, writer = await self._connected(slow=slow)
                writer.write(_request(ask))
                await self._behave(ask, answer, reader, writer)
        except TimeoutError:
            given_up = True
        except OSError:
            answer.broken = True
        if not (answer.complete and answer.keep and not slow and not answer.broken):
            self.close()
        seconds = time.monotonic() - started
        return Answer(answer.status, answer.headers, answer.body, answer.complete, seconds, given_up)

    def close(self, *, by_reset: bool = False) -> None:
        """Closes the connection, if there is one."""
        if self._writer is not None:
            if by_reset:
                linger = struct.pack("ii", 1, 0)
                self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self._writer.transport.abort()
            self._writer.close()
        self._reader = self._writer = None

    async def _connected(self, *, slow: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is not None and self._writer is not None:
            return self._reader, self._writer
        size = SMALL if slow else LARGE
        own = socket.socket()
        own.setblocking(False)
        if slow:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        try:
            await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", self._port))
            self._reader, self._writer = await asyncio.open_connection(sock=own, limit=size)
        except BaseException:
            own.close()
            raise
        return self._reader, self._writer

    async def _behave(
        self, ask: Ask, answer: "_Reading", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match ask.behaviour:
            case Behaviour.LEAVE_AT_ONCE:
                await asyncio.sleep(0)
                self.close(by_reset=ask.by_reset)
            case Behaviour.LEAVE:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ask.after):
                        await answer.rest(reader)
                if not answer.complete:
                    self.close(by_reset=ask.by_reset)
            case Behaviour.HALF_CLOSE:
                await asyncio.sleep(ask.after)
                writer.write_eof()
                await answer.rest(reader)
                self.close()
            case Behaviour.STOP:
                if await answer.some(reader):
                    await asyncio.sleep(STOPS_FOR)
                    await answer.rest(reader)
            case Behaviour.SLOW:
                await answer.slowly(reader)
            case Behaviour.READ:
                await answer.rest(reader)


def _request(ask: Ask) -> bytes:
    headers = {"host": "127.0.0.1", "content-length": str(len(ask.body)), **ask.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{ask.method} {ask.path} HTTP/1.1\r\n{lines}\r\n".encode() + ask.body


class _Reading:
    """An answer as it is read."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.complete = self.keep = self.broken = False
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)

    async def some(self, reader: asyncio.StreamReader, size: int = LARGE) -> bool:
        """Reads once; whether there may be more."""
        data = await reader.read(size)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.broken = True
        return bool(data) and not self.complete and not self.broken

    async def rest(self, reader: asyncio.StreamReader) -> None:
        """Reads to the end."""
        while await self.some(reader):
            pass

    async def slowly(self, reader: asyncio.StreamReader) -> None:
        """Reads to the end, about 200 KB a second."""
        while await self.some(reader, SMALL):  # noqa: ASYNC110 - the pause is what it is for
            await asyncio.sleep(0.02)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self.complete = True
        self.keep = self._parser.should_keep_alive()
