"""One request on one connection: who gets the bytes of its answer, and who may stop them.

Until a sink is attached the body is held, and the connection is paused above `HELD`. Afterwards a piece goes from the
socket through the parser to the sink in one call: no task, no future. The ending comes after every byte before it.
An exchange that was closed has let go of its connection, so a late call cannot touch the connection's next request.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import httpx

from gateway.errors import EngineError
from gateway.upstream.answer import Answer
from gateway.upstream.body import Sink
from gateway.upstream.failures import BrokenAnswer, StaleConnection, engine_error

HELD = 256 * 1024
"""Bytes of a body that may wait for a sink before the connection is paused; one read may come on top."""


class Carrier(Protocol):
    """What an exchange needs of its connection."""

    def pause_reading(self) -> None:
        """Stop reading the socket. Idempotent."""

    def resume_reading(self) -> None:
        """Read the socket again. Idempotent."""

    def leave_unread(self, size: int, rest: float) -> None:
        """Let the kernel keep fewer than `size` bytes to itself, and read what is more in rounds; 0: at once.

        `rest`: see `Body.leave`.
        """

    def read_now(self) -> int:
        """Read what the kernel keeps; how many bytes."""

    def release(self, *, reusable: bool) -> None:
        """The exchange is over: back to the pool, or aborted."""


class Exchange(httpx.AsyncByteStream):
    """A request that was written, and its answer. Implements `Body`."""

    def __init__(self, carrier: Carrier, answer: Answer, *, reused: bool) -> None:
        """`reused`: the connection carried another exchange before."""
        self._carrier: Carrier | None = carrier
        self._answer = answer
        self._reused = reused
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
        self._held: list[bytes] = []
        self._held_size = 0
        self._error: httpx.TransportError | None = None

    async def head(self) -> Answer:
        """Wait until the head is there.

        Raises:
            StaleConnection: a reused connection died before any byte of the answer.
            BrokenAnswer: what came is not an answer.
            httpx.ReadError: the connection broke.
        """
        if not self._answer.has_head and self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._error is not None and not self._answer.has_head:
            raise self._error
        return self._answer

    def received(self, data: bytes) -> None:
        """Bytes of the socket."""
        answer = self._answer
        was_over = answer.over or self._error is not None
        body = answer.feed(data)
        if was_over:
            return
        if self._waiter is not None and answer.has_head:
            self._wake()
        if body:
            if self._sink is not None:
                self._sink.received(body)
            else:
                self._hold(body)
        if answer.over:
            if answer.error is not None:
                self._break(BrokenAnswer(answer.error))
            else:
                self._end()

    def cut(self, cause: Exception | None) -> None:
        """The connection is gone: closed by the engine (None), or broken."""
        answer = self._answer
        if answer.over or self._error is not None:
            answer.end()
            return
        if cause is None:
            answer.end()
        if answer.complete:
            self._end()
        elif self._reused and not answer.started:
            self._break(StaleConnection("closed before any byte of the answer"))
        elif answer.error is not None:
            self._break(BrokenAnswer(answer.error))
        else:
            error = httpx.ReadError("the connection broke")
            error.__cause__ = cause
            self._break(error)

    def attach(self, sink: Sink) -> None:
        """See `Body.attach`."""
        self._sink = sink
        if self._carrier is not None:
            self._carrier.resume_reading()
        if self._held:
            held = b"".join(self._held)
            self._held.clear()
            sink.received(held)
        if self._error is not None or self._answer.complete:
            self._end()

    def pause(self) -> None:
        """See `Body.pause`."""
        if self._carrier is not None:
            self._carrier.pause_reading()

    def resume(self) -> None:
        """See `Body.resume`."""
        if self._carrier is not None:
            self._carrier.resume_reading()

    def leave(self, size: int, rest: float = 0.0) -> None:
        """See `Body.leave`."""
        if self._carrier is not None:
            self._carrier.leave_unread(size, rest)

    def look(self) -> None:
        """See `Body.look`."""
        if self._carrier is not None:
            self._carrier.read_now()

    def close(self) -> None:
        """See `Body.close`."""
        carrier, self._carrier, self._sink = self._carrier, None, None
        self._held.clear()
        if carrier is not None:
            reusable = self._error is None and self._answer.reusable
            self._answer.close()
            carrier.release(reusable=reusable)

    async def aclose(self) -> None:
        """`close`, for httpx."""
        self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body for whoever asks through httpx itself; one wake-up for whatever came meanwhile."""
        pulled = _Pulled(self.pause)
        self.attach(pulled)
        while True:
            pulled.ready.clear()
            pieces, pulled.pieces = pulled.pieces, []
            self.resume()
            for piece in pieces:
                yield piece
            if pulled.over and not pulled.pieces:
                break
            await pulled.ready.wait()
        if self._error is not None:
            raise self._error

    def _hold(self, body: bytes) -> None:
        self._held.append(body)
        self._held_size += len(body)
        if self._held_size > HELD:
            self.pause()

    def _break(self, error: httpx.TransportError) -> None:
        self._error = error
        self.pause()
        self._wake()
        self._end()

    def _end(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.ended(engine_error(self._error) if self._error is not None else None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Pulled:
    """A sink that is read by iteration."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause
        self.pieces: list[bytes] = []
        self.over = False
        self.ready = asyncio.Event()

    def received(self, data: bytes) -> None:
        self._pause()
        self.pieces.append(data)
        self.ready.set()

    def ended(self, _error: EngineError | None) -> None:
        self.over = True
        self.ready.set()
