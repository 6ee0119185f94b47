"""How the tests of this folder ask: a bare client that leaves or reads when it wants, and engines that play scripts."""

import asyncio
import json
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from app.sim import SimEngine
from tests.fakes.running_gateway import RunningGateway, running_gateway, settings_for
from tests.fakes.scripted_engine import ScriptedEngine, chunk, stream_head

CHAT = "/v1/chat/completions"
DONE = b"data: [DONE]\n\n"
ROLE = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'


def body(*, stream: bool = True, **more: Any) -> bytes:
    """A request for a chat answer."""
    asked = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    return json.dumps(asked | more).encode()


def request(content: bytes = body(), /, **headers: str) -> bytes:
    """The bytes of a request on a connection of its own; underscores in names of headers stand for hyphens."""
    lines = [f"POST {CHAT} HTTP/1.1", "host: x", "connection: close", "content-type: application/json"]
    lines += [f"content-length: {len(content)}", *(f"{name.replace('_', '-')}: {v}" for name, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def text(content: str) -> bytes:
    """An event with some text, as an engine sends it."""
    delta = json.dumps({"content": content}, ensure_ascii=False)
    return f'data: {{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}\n\n'.encode()


def finish(reason: str = "stop") -> bytes:
    """The event that finishes the answer."""
    return f'data: {{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}\n\n'.encode()


def streamed(*events: bytes) -> bytes:
    """Head and events of a stream, each in an HTTP chunk of its own, without an end."""
    return stream_head() + b"".join(chunk(event) for event in events)


END = chunk(b"")


@dataclass(frozen=True)
class Answer:
    """An answer as it came: `whole` says whether its framing was complete."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def events(self) -> list[str]:
        """The data of each event."""
        events = [e for e in self.body.decode().split("\n\n") if e.startswith("data: ")]
        return ["\n".join(line.removeprefix("data: ") for line in e.split("\n")) for e in events]

    @property
    def text(self) -> str:
        """What a client makes of the events."""
        return "".join(said(json.loads(event)) for event in self.events if event != "[DONE]")

    @property
    def error(self) -> dict[str, Any]:
        """The error in OpenAI's shape, of an answer or of the last event; the shape is checked."""
        read = json.loads(self.events[-1] if self.events else self.body)
        assert set(read["error"]) == {"message", "type", "param", "code"}, read
        error: dict[str, Any] = read["error"]
        return error

    @property
    def done(self) -> bool:
        """Whether the stream says that it is over."""
        return self.body.endswith(DONE)


def said(read: dict[str, Any]) -> str:
    """The text of one event."""
    return "".join(choice.get("delta", {}).get("content") or "" for choice in read.get("choices", ()))


def answer(raw: bytes) -> Answer:
    """Reads the bytes of one answer; what is missing at its end is no mistake."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        content, whole = dechunked(rest)
    else:
        content, whole = rest, len(rest) == int(headers.get("content-length", -1))
    return Answer(int(first.split()[1]), headers, content, whole)


def dechunked(raw: bytes) -> tuple[bytes, bool]:
    """A body out of its chunks, and whether it has an end."""
    pieces: list[bytes] = []
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        if not int(size, 16):
            return b"".join(pieces), True
        pieces.append(raw[: int(size, 16)])
        raw = raw[int(size, 16) + 2 :]
    return b"".join(pieces), False


class Client:
    """One connection. It reads only when it is told to.

    Args:
        url: of the gateway.
        receive_buffer: bytes that the system may hold for it.
    """

    def __init__(self, url: str, *, receive_buffer: int | None = None) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._address = (host, int(port))
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self.got = b""
        self.reset = False

    async def __aenter__(self) -> Self:
        await self._loop.sock_connect(self._socket, self._address)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def read(self, most: int = 65536) -> bytes:
        """Something, or nothing at the end."""
        try:
            data = await asyncio.wait_for(self._loop.sock_recv(self._socket, most), 20)
        except ConnectionError:
            self.reset = True
            return b""
        self.got += data
        return data

    async def until(self, marker: bytes) -> None:
        """Reads until the marker came."""
        while marker not in self.got:
            assert await self.read(), f"{marker!r} did not come: {self.got!r}"

    async def rest(self) -> Answer:
        """Reads to the end."""
        while await self.read():
            pass
        return answer(self.got)

    def is_cut(self) -> bool:
        """Whether the other side has closed with a reset, whatever is still to be read."""
        poll = select.poll()
        poll.register(self._socket, 0)
        return bool(poll.poll(0))

    def leave(self, *, reset: bool = False) -> None:
        """Closes, with a reset or in order."""
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


async def ask(url: str, content: bytes = body(), /, **headers: str) -> Answer:
    """One request and its answer."""
    async with Client(url) as client:
        await client.send(request(content, **headers))
        return await client.rest()


async def until(condition: Callable[[], object], what: object = "it did not come to pass") -> None:
    """Waits until it is so; ten seconds and more, since machines can be busy."""
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(what() if callable(what) else what)


@asynccontextmanager
async def gateway_on(*engines: ScriptedEngine, **changes: Any) -> AsyncIterator[RunningGateway]:
    """A gateway in front of scripted engines, which nobody but requests ask: a simulated one answers the first probe."""
    changes = {"health": {"interval_s": 3600}} | changes
    async with AsyncExitStack() as stack:
        healthy = await stack.enter_async_context(SimEngine())
        settings = settings_for(*[healthy] * len(engines), **changes)
        gateway = await stack.enter_async_context(running_gateway(settings))
        await until(lambda: len(healthy.requests) == 2 * len(engines))
        for lane in gateway.service.gateway.lanes.values():
            for engine, scripted in zip(lane.pool.engines, engines, strict=True):
                engine.url = scripted.url
        yield gateway
        await gateway.settles()
        await gateway.service.gateway.client.aclose()
        await until(lambda: all(len(scripted._tasks) <= 1 for scripted in engines), "a script still plays")


async def metrics(gateway: RunningGateway) -> str:
    return (await gateway.http.get("/metrics")).text


async def counted(gateway: RunningGateway, outcome: str, status: int) -> float:
    """How many requests ended so."""
    how = f'outcome="{outcome}",status="{status}"'
    lines = (await metrics(gateway)).splitlines()
    return sum(float(x.rpartition(" ")[2]) for x in lines if x.startswith("tokenlane_requests_total") and how in x)
