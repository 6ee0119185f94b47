"""A stream from the bytes of an engine's connection to the write on a client's, with everything between but sockets.

Time is set, not waited for. In each step the window's alarm rings when `TOKENS` tokens have come since the last one:
what the kernel keeps is read, goes through parser, buffer and relay, and is written as one event.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn
import uvloop
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from app.line import line_of
from app.protocol import bounded_protocol
from app.sse import EventWriter, Pace
from gateway.buffer import TokenBuffer
from gateway.relay import Deadlines, Relay
from gateway.ticker import Ticker
from gateway.upstream.answer import Answer
from gateway.upstream.client import EngineResponse
from gateway.upstream.exchange import Exchange

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
GAP = 0.02
"""Seconds a token."""
TOKENS = 2
"""That come while the window of 40 ms waits."""
WORDS = 200
"""Different ones; afterwards they come again."""

SETTLED = 4
"""Steps until each of them is like the next."""


def chunk(delta: dict[str, Any], **more: Any) -> bytes:
    """An event with a chunk of a chat, as vLLM writes it."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "token_ids": None} | more
    head = {"id": "chatcmpl-9aa1a2709fcf612c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-oss-20b"}
    return b"data: " + json.dumps({**head, "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


class Clock(uvloop.Loop):
    """An event loop whose time is set."""

    now = 1000.0

    def time(self) -> float:
        return self.now


class Timers:
    """The loop as the ticker knows it, and its one timer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.due = 0.0
        self.ring: Callable[[], None] | None = None

    def time(self) -> float:
        return self._clock.now

    def call_at(self, when: float, ring: Callable[[], None]) -> "Timers":
        self.due, self.ring = when, ring
        return self

    def cancel(self) -> None:
        self.ring = None

    def pass_on(self) -> None:
        """Lets time pass until the timer rings."""
        self._clock.now = self.due
        ring, self.ring = self.ring, None
        assert ring is not None
        ring()


class Drain(asyncio.Transport):
    """The client's connection, which takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, data: Any) -> None:
        self.writes += 1

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class Flow:
    """One stream in its middle. It is the carrier of its engine's connection.

    The times of the window's alarm follow from its own rules, as they do for a real stream.

    Attributes:
        client: the connection to the client.
        buffer: of the stream.
    """

    def __init__(self, clock: Clock) -> None:
        self.client = Drain()
        self.buffer = TokenBuffer()
        self._clock = clock
        self._timers = Timers(clock)
        self._ticker = Ticker(cast("asyncio.AbstractEventLoop", self._timers))
        self._exchange = Exchange(self, Answer(max_head=65536), reused=False)
        self._words = [self._framed({"content": f" word{number}"}) for number in range(WORDS)]
        self._pairs = [b"".join(self._words[at : at + TOKENS]) for at in range(0, WORDS, TOKENS)]
        self._at = self._unread = 0
        self._kernel = b""

    async def open(self) -> None:
        """Brings the stream to where its pace is known, and its tokens are left unread until the alarm rings."""
        config = uvicorn.Config(self._serve, interface="asgi3", log_config=None)
        protocol: Any = bounded_protocol(65536)
        connection = protocol(config=config, server_state=ServerState(), app_state={})
        self._exchange.received(HEAD + self._framed({"role": "assistant", "content": ""}))
        connection.connection_made(self.client)
        connection.data_received(REQUEST)
        await asyncio.sleep(0)
        for word in self._words:
            until = self._clock.now + GAP
            while self._timers.ring is not None and self._timers.due < until:
                self._timers.pass_on()
            self._clock.now = until
            self._exchange.received(word)
        assert self._unread > 1
        for _ in range(SETTLED):
            self.step()

    def step(self) -> None:
        """`TOKENS` tokens came, and the alarm rings: they are read, and an event goes out."""
        self._kernel = self._pairs[self._at]
        self._at = (self._at + 1) % len(self._pairs)
        self._timers.pass_on()

    async def close(self) -> None:
        """The engine closes the connection."""
        self._exchange.cut(None)
        await asyncio.sleep(0.01)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        relay = Relay(
            self.buffer,
            EngineResponse(200, {}, self._exchange),
            ticker=self._ticker,
            deadlines=Deadlines(),
            asked_at=self._clock.now,
            cut=lambda _: None,
        )
        line = line_of(scope)
        assert line is not None
        with EventWriter(send, send, Pace(), self._start, line.write) as events:
            await relay.pump(events.write, line.unsent)
            relay.close()
            await events.end()

    def _start(self) -> Message:
        return {"type": "http.response.start", "status": 200, "headers": []}

    @staticmethod
    def _framed(delta: dict[str, Any]) -> bytes:
        event = chunk(delta)
        return b"%x\r\n%b\r\n" % (len(event), event)

    # The engine's connection, as its exchange knows it.

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def release(self, *, reusable: bool) -> None: ...

    def leave_unread(self, size: int, rest: float) -> None:
        self._unread = size

    def read_now(self) -> int:
        data, self._kernel = self._kernel, b""
        if data:
            self._exchange.received(data)
        return len(data)


@contextmanager
def flow() -> Iterator[Flow]:
    """A stream in its middle, for as long as the block lasts."""
    clock = Clock()
    try:
        made = Flow(clock)
        clock.run_until_complete(made.open())
        yield made
        clock.run_until_complete(made.close())
    finally:
        clock.close()
