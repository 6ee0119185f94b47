"""Engines behind https: httpx's own transport, its pulled body pushed to a sink like that of a plain connection.

Slower than ours, and a stale connection cannot be told from a broken one; else the same rules hold.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine

import httpx

from gateway.upstream.body import Sink
from gateway.upstream.failures import BrokenAnswer, PoolExhausted, engine_error
from gateway.upstream.pool import PoolStatistics


def stock_transport(*, size: int, keepalive: float, tls: ssl.SSLContext | None) -> httpx.AsyncHTTPTransport:
    """The transport of httpx itself with our bounds: nothing from the environment, no retries."""
    limits = httpx.Limits(max_connections=size, max_keepalive_connections=size, keepalive_expiry=keepalive)
    return httpx.AsyncHTTPTransport(
        verify=tls or ssl.create_default_context(), trust_env=False, limits=limits, retries=0
    )


class SecurePool:
    """The requests to one https origin."""

    def __init__(self, transport: httpx.AsyncBaseTransport, *, size: int, connect_timeout: float) -> None:
        self._transport = transport
        self._size = size
        self._timeouts = httpx.Timeout(None, connect=connect_timeout, pool=connect_timeout).as_dict()
        self._in_use = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def request(self, request: httpx.Request) -> httpx.Response:
        """The head of the answer; its body is a `PulledBody` in `extensions["body"]`.

        Raises:
            PoolExhausted: `size` requests are under way.
            httpx.TransportError: whatever went wrong.
        """
        if self._in_use >= self._size:
            raise PoolExhausted(f"all {self._size} connections to an engine are in use: admit before sending")
        self._in_use += 1
        request.extensions["timeout"] = self._timeouts
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException:
            self._in_use -= 1
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - what an async transport gives
        body = PulledBody(response.stream, start=self._start, closed=self._leave)
        if response.headers.get("content-encoding", "identity") != "identity":
            body.close()
            raise BrokenAnswer("the engine compressed an answer that was asked for as it is")
        response.extensions["body"] = body
        return response

    def statistics(self) -> PoolStatistics:
        """Requests under way; what httpx keeps idle is not known."""
        return PoolStatistics(open=self._in_use, in_use=self._in_use)

    async def aclose(self) -> None:
        """Close the connections, then wait for the readers."""
        await self._transport.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, coroutine: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _leave(self) -> None:
        self._in_use -= 1


class PulledBody:
    """A body that is read by a task and pushed to a sink. Implements `Body`; nothing is read before `attach`."""

    def __init__(
        self,
        stream: httpx.AsyncByteStream,
        *,
        start: Callable[[Coroutine[None, None, None]], "asyncio.Task[None]"],
        closed: Callable[[], None],
    ) -> None:
        """`start` runs a task and owns it; `closed` is called once, when the body needs its connection no more."""
        self._stream = stream
        self._start = start
        self._closed: Callable[[], None] | None = closed
        self._sink: Sink | None = None
        self._task: asyncio.Task[None] | None = None
        self._running = asyncio.Event()
        self._running.set()

    def attach(self, sink: Sink) -> None:
        """See `Body.attach`."""
        self._sink = sink
        self._task = self._start(self._pull())

    def pause(self) -> None:
        """See `Body.pause`."""
        self._running.clear()

    def resume(self) -> None:
        """See `Body.resume`."""
        self._running.set()

    def leave(self, size: int, rest: float = 0.0) -> None:
        """See `Body.leave`. httpx reads at once."""

    def look(self) -> None:
        """See `Body.look`. Nothing waits."""

    def close(self) -> None:
        """See `Body.close`. The engine sees it a turn of the event loop later."""
        closed, self._closed, self._sink = self._closed, None, None
        if closed is None:
            return
        closed()
        if self._task is None:
            self._task = self._start(self._stream.aclose())
        else:
            self._task.cancel()

    async def _pull(self) -> None:
        error = None
        try:
            async for piece in self._stream:
                await self._running.wait()
                if piece and self._sink is not None:
                    self._sink.received(piece)
        except httpx.HTTPError as e:
            error = engine_error(e)
        finally:
            await self._stream.aclose()
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.ended(error)
