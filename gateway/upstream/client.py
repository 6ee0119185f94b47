"""The client to the engines: what the rest of the library sees of this folder.

One object for all engines. It does not retry, follow redirects, keep cookies or read the environment, and has no time
limit but that of the connect: the gateway decides all of that. What it holds is given back at every way out, a
cancelled one above all.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from gateway.errors import EngineBroke, EngineError, EngineUnreachable
from gateway.ticker import Ticker
from gateway.upstream.body import Body, Sink
from gateway.upstream.failures import PoolExhausted, engine_error
from gateway.upstream.outgoing import fields_of, request_of, target_of
from gateway.upstream.pool import PoolStatistics
from gateway.upstream.transport import EngineTransport, Limits

__all__ = ["EngineClient", "EngineResponse", "PoolExhausted", "PoolStatistics", "Sink"]


class EngineResponse:
    """The head of an answer has come, its body is under way. Whoever has one must `close` it.

    Attributes:
        status: the HTTP status.
        headers: the header fields by their names in lower case; several of a name are joined by commas.
    """

    __slots__ = ("_body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: Body) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    def attach(self, sink: Sink) -> None:
        """Push the body to `sink` from now on; what came before is handed over inside this call. Once."""
        self._body.attach(sink)

    def pause(self) -> None:
        """Stop reading the engine, which fills the kernel's buffers and then stops the engine. Idempotent."""
        self._body.pause()

    def resume(self) -> None:
        """Read the engine again. Idempotent."""
        self._body.resume()

    def leave(self, size: int, rest: float = 0.0) -> None:
        """See `Body.leave`: what may wait in the kernel."""
        self._body.leave(size, rest)

    def look(self) -> None:
        """Push what waits in the kernel, inside this call."""
        self._body.look()

    def close(self) -> None:
        """Give a complete answer's connection back; abort any other at once. Idempotent, no `ended` follows."""
        self._body.close()

    async def read(self, limit: int) -> bytes:
        """The whole body, instead of `attach`; closes.

        Raises:
            EngineBroke: it broke, or is larger than `limit` bytes.
        """
        whole = _Whole(limit, asyncio.get_running_loop().create_future())
        try:
            self._body.attach(whole)
            error = await whole.done
        finally:
            self.close()
        if error is not None:
            raise error
        return b"".join(whole.pieces)


def read_headers(fields: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """See `EngineResponse.headers`."""
    headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in fields}
    return headers if len(headers) == len(fields) else _joined(fields)


def _joined(fields: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Where several have one name, which is rare."""
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.lower().decode("latin-1"), []).append(value.decode("latin-1"))
    return {name: ", ".join(several) for name, several in values.items()}


class _Whole:
    """A sink that keeps everything, up to a limit."""

    def __init__(self, limit: int, done: "asyncio.Future[EngineError | None]") -> None:
        self._room = limit
        self.done = done
        self.pieces: list[bytes] = []

    def received(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room < 0:
            self.pieces.clear()
            self.ended(EngineBroke("the engine's answer is too large"))
        else:
            self.pieces.append(data)

    def ended(self, error: EngineError | None) -> None:
        if not self.done.done():
            self.done.set_result(error)


class EngineClient:
    """The pooled client. Made anywhere, used inside one running event loop."""

    def __init__(
        self,
        *,
        pool_size: int = 32,
        control_size: int = 8,
        keepalive: float = 4.0,
        connect_timeout: float = 5.0,
        max_head: int = 64 * 1024,
        tls: ssl.SSLContext | None = None,
        ticker: Ticker | None = None,
    ) -> None:
        """Bounds of each engine: see `Limits`. `keepalive` must be less than the engine's own (vLLM: 5 s).

        `ticker`: by which streams are read; see `EngineTransport`.
        """
        limits = Limits(pool_size, control_size, keepalive, connect_timeout, max_head, tls)
        self._transport = EngineTransport(limits, ticker)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._http = httpx.AsyncClient(
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(None),
            cookies=no_cookies,
        )

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]],
        body: bytes = b"",
        control: bool = False,
        fresh: bool = False,
    ) -> EngineResponse:
        """Send a request and wait for the head of its answer.

        `control`: not a lane's traffic (health, models): it has connections of its own, `control_size` of them, each
        used once, so that full lanes starve no probe. `fresh`: on a connection that carried nothing before. Host,
        Content-Length, Accept and Accept-Encoding are ours whatever `headers` says. There is no time limit for the
        head; cancel to give up: nothing stays behind.

        Raises:
            EngineUnreachable: refused, no such name, not connected in time; nothing was sent.
            EngineStale: a reused connection died before any byte of the answer.
            EngineBroke: anything else.
            InvalidRequest: a header has characters that HTTP does not allow; nothing was sent.
            PoolExhausted: a mistake of the caller, who has to admit first; nothing was sent.
        """
        if self._http.is_closed:
            raise EngineUnreachable("the client to the engines is closed")
        try:
            target, fields = target_of(url), fields_of(headers)
            if target.plain and not control:
                answer, exchange = await self._transport.ask(method, target, fields, body, fresh=fresh)
                return EngineResponse(answer.status, read_headers(answer.headers), exchange)
            request = request_of(method, target, fields, body)
            request.extensions.update(control=control, fresh=fresh)
            response = await self._by_httpx(request, control=control)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise engine_error(e) from e
        return EngineResponse(response.status_code, read_headers(response.headers.raw), response.extensions["body"])

    async def _by_httpx(self, request: httpx.Request, *, control: bool) -> httpx.Response:
        """By way of httpx: control requests, whose cost does not matter, and engines behind TLS."""
        if control:
            return await self._http.send(request, stream=True)
        return await self._transport.handle_async_request(request)

    def statistics(self) -> Mapping[str, PoolStatistics]:
        """By origin, `http://host:port`, and ` (control)` behind it for the control connections."""
        return self._transport.statistics()

    async def aclose(self) -> None:
        """Abort every connection and wait until they are closed; whoever still reads is told that it broke."""
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"<EngineClient {dict(self.statistics())}>"
