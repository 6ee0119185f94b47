"""The connections to one engine.

A bound that is never passed and a pool that never queues: whoever sends has admitted before, so one request too many
is a mistake of the caller and says so. The last connection that was given back is the first to be used again; what
was idle for `keepalive` seconds is closed, before the engine does it. Every decision is made between two
awaits: the only await is the connect itself.
"""

import asyncio
from dataclasses import dataclass

import httpx

from gateway.upstream.connection import Connection
from gateway.upstream.failures import PoolExhausted
from gateway.upstream.rounds import Rounds


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """How many connections: `open` ones are either `idle` or `in_use`; those `connecting` come on top."""

    open: int = 0
    idle: int = 0
    connecting: int = 0
    in_use: int = 0


class Pool:
    """The connections to one host and port. Implements `Owner`; made inside a running event loop."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        size: int,
        keepalive: float,
        connect_timeout: float,
        rounds: Rounds | None = None,
    ) -> None:
        """Times in seconds. A `keepalive` of 0 closes every connection after one exchange. `rounds`: `Connection`'s."""
        self._rounds = rounds
        self._host = host
        self._port = port
        self._size = size
        self._keepalive = keepalive
        self._connect_timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        self._idle: dict[Connection, float] = {}  # in order of when they were given back
        self._connecting = 0
        self._closing: dict[Connection, asyncio.Future[None]] = {}  # aborted, the socket is closed in the next turn
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False

    async def acquire(self, *, fresh: bool = False) -> Connection:
        """A connection to ask; it comes back by way of its exchange.

        `fresh`: one that carried nothing before, if need be in the place of one that is idle.

        Raises:
            PoolExhausted: all connections are in use.
            httpx.ConnectError: refused, no route, no such name, no file descriptor left.
            httpx.ConnectTimeout: not connected within the time for it.
        """
        connection = None if fresh else self._take_idle()
        if connection is not None:
            return connection
        if fresh and self._idle and len(self._open) + self._connecting >= self._size:
            self.discard(next(iter(self._idle)))
        if len(self._open) + self._connecting >= self._size:
            raise PoolExhausted(f"all {self._size} connections to an engine are in use: admit before sending")
        return await self._connect()

    def statistics(self) -> PoolStatistics:
        """The counts of this moment."""
        opened, idle = len(self._open), len(self._idle)
        return PoolStatistics(open=opened, idle=idle, connecting=self._connecting, in_use=opened - idle)

    async def aclose(self) -> None:
        """Abort everything and wait until the sockets are closed."""
        self._closed = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for connection in tuple(self._open):
            self.discard(connection)
        if self._closing:
            await asyncio.wait(self._closing.values())

    def shelve(self, connection: Connection) -> None:
        """See `Owner.shelve`."""
        if self._closed or self._keepalive <= 0:
            self.discard(connection)
            return
        self._idle[connection] = self._loop.time() + self._keepalive
        if self._expiry is None:
            self._expiry = self._loop.call_later(self._keepalive, self._expire)

    def discard(self, connection: Connection) -> None:
        """See `Owner.discard`."""
        self._idle.pop(connection, None)
        if connection in self._open:
            self._open.remove(connection)
            self._closing[connection] = self._loop.create_future()
        connection.abort()

    def lost(self, connection: Connection) -> None:
        """See `Owner.lost`."""
        self._idle.pop(connection, None)
        self._open.discard(connection)
        closing = self._closing.pop(connection, None)
        if closing is not None and not closing.done():
            closing.set_result(None)

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection, expires = self._idle.popitem()
            if expires > self._loop.time() and connection.is_usable():
                return connection
            self.discard(connection)
        return None

    def _expire(self) -> None:
        self._expiry = None
        for connection, expires in tuple(self._idle.items()):
            if expires > self._loop.time():
                self._expiry = self._loop.call_at(expires, self._expire)
                break
            self.discard(connection)

    async def _connect(self) -> Connection:
        connection = Connection(self, self._rounds)
        self._connecting += 1
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._loop.create_connection(lambda: connection, self._host, self._port)
        except TimeoutError as e:
            connection.abort()
            raise httpx.ConnectTimeout("not connected in time") from e
        except (OSError, OverflowError, UnicodeError) as e:
            connection.abort()
            raise httpx.ConnectError("not connected") from e
        except BaseException:  # cancelled: what was made meanwhile must not stay
            connection.abort()
            raise
        finally:
            self._connecting -= 1
        self._open.add(connection)
        if self._closed:
            self.discard(connection)
            raise httpx.ConnectError("the pool is closed")
        return connection
