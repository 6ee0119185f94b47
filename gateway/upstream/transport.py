"""An httpx transport for engines: a pool of our own connections an origin, and httpx's own transport for https.

A request with `extensions["control"]` (health, models, tokenize: what is not a lane's traffic) has a small pool
beside, so that lanes that are full starve no probe. The answer's `Body` is in `extensions["body"]`.
"""

import asyncio
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from gateway.ticker import Ticker
from gateway.upstream.answer import Answer
from gateway.upstream.exchange import Exchange
from gateway.upstream.outgoing import OURS, Target, target_of, written
from gateway.upstream.pool import Pool, PoolStatistics
from gateway.upstream.rounds import Rounds
from gateway.upstream.secure import SecurePool, stock_transport


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the connections to one engine.

    Attributes:
        pool_size: connections for a lane's requests.
        control_size: connections for control requests; each carries one and is closed.
        keepalive: seconds a connection may be idle and still be used again.
        connect_timeout: seconds.
        max_head: bytes of an answer's head.
        tls: for https; None: the authorities of the system.
    """

    pool_size: int
    control_size: int
    keepalive: float
    connect_timeout: float
    max_head: int
    tls: ssl.SSLContext | None = None


class EngineTransport(httpx.AsyncBaseTransport):
    """The connections to every engine. `ticker`: by which streams are read in rounds; None: one of its own."""

    def __init__(self, limits: Limits, ticker: Ticker | None = None) -> None:
        self._limits = limits
        self._ticker = ticker
        self._rounds: Rounds | None = None
        self._plain: dict[tuple[str, bool], Pool] = {}
        self._secure: dict[tuple[str, bool], SecurePool] = {}

    async def ask(
        self,
        method: str,
        target: Target,
        fields: Sequence[tuple[bytes, bytes]],
        body: bytes,
        *,
        control: bool = False,
        fresh: bool = False,
    ) -> tuple[Answer, Exchange]:
        """Send a request without TLS and wait for the head of its answer. No time limit but that of the connect.

        `fields`: what `fields_of` gives. The exchange has to be closed.

        Raises:
            PoolExhausted: all connections of the origin are in use.
            httpx.TransportError: see `Pool.acquire` and `Exchange.head`.
        """
        connection = await self._plain_pool(target, control).acquire(fresh=fresh)
        answer = Answer(max_head=self._limits.max_head, head_only=method == "HEAD")
        exchange = connection.ask(written(method, target, fields, body), answer)
        try:
            await exchange.head()
        except BaseException:
            exchange.close()
            raise
        return answer, exchange

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The same for httpx, and for engines behind TLS."""
        target = target_of(str(request.url))
        control, fresh = bool(request.extensions.get("control")), bool(request.extensions.get("fresh"))
        if not target.plain:
            return await self._secure_pool(target, control).request(request)
        fields = [field for field in request.headers.raw if field[0].lower() not in OURS]
        body = await request.aread()
        answer, exchange = await self.ask(request.method, target, fields, body, control=control, fresh=fresh)
        return httpx.Response(answer.status, headers=answer.headers, stream=exchange, extensions={"body": exchange})

    def statistics(self) -> Mapping[str, PoolStatistics]:
        """By origin, `http://host:port`, and ` (control)` behind it for the pool beside."""
        pools = (self._plain | self._secure).items()
        return {origin + " (control)" * control: pool.statistics() for (origin, control), pool in pools}

    async def aclose(self) -> None:
        """Abort every connection; whoever still reads is told that it broke."""
        for plain in self._plain.values():
            await plain.aclose()
        for secure in self._secure.values():
            await secure.aclose()
        if self._rounds is not None:
            self._rounds.close()

    def _plain_pool(self, target: Target, control: bool) -> Pool:
        pool = self._plain.get((target.origin, control))
        if pool is None:
            if self._rounds is None and sys.platform == "linux":
                self._rounds = Rounds(self._ticker or Ticker(asyncio.get_running_loop()))
            limits = self._limits
            pool = self._plain[target.origin, control] = Pool(
                target.url.host,
                target.url.port or 80,
                size=limits.control_size if control else limits.pool_size,
                keepalive=0 if control else limits.keepalive,
                connect_timeout=limits.connect_timeout,
                rounds=self._rounds,
            )
        return pool

    def _secure_pool(self, target: Target, control: bool) -> SecurePool:
        pool = self._secure.get((target.origin, control))
        if pool is None:
            limits = self._limits
            size = limits.control_size if control else limits.pool_size
            transport = stock_transport(size=size, keepalive=limits.keepalive, tls=limits.tls)
            pool = self._secure[target.origin, control] = SecurePool(
                transport, size=size, connect_timeout=limits.connect_timeout
            )
        return pool
