"""Counting in Redis, for several gateways. Needs the extra `redis`.

Places for requests that run are a sorted set for each key, a member for each request, its score the time until which it
counts: the gateway renews those that it holds, and what a gateway held that died is free a minute later.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from limits.aio.storage import RedisStorage
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.exceptions import RedisError

from gateway.quota.counters import WINDOW_S, CountersDown, Windows

LEASE_S = 60
"""Seconds for which a place is held without a word."""

PATIENCE_S = 2.0
"""Seconds that Redis has to connect, and to answer, and that a request waits for a connection."""

CONNECTIONS = 16
"""Connections of a gateway: each is busy for less than a millisecond."""

ROUNDING_S = 0.5
"""By how much the whole seconds of Redis' TTL may be too few."""

ENTER = """
local now = redis.call("TIME")[1]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call("ZADD", KEYS[1], now + ARGV[2], ARGV[3])
redis.call("EXPIRE", KEYS[1], ARGV[2])
return 1
"""

RENEW = """
local until_ = redis.call("TIME")[1] + ARGV[1]
for place = 2, #ARGV do redis.call("ZADD", KEYS[1], "XX", until_, ARGV[place]) end
redis.call("EXPIRE", KEYS[1], ARGV[1])
return 1
"""


class _Storage(RedisStorage):
    """The storage of `limits` whose errors are ours."""

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        with _translated():
            return await super().incr(key, int(expiry), amount)

    async def get(self, key: str) -> int:
        with _translated():
            return await super().get(key)

    async def get_expiry(self, key: str) -> float:
        with _translated():
            return await super().get_expiry(key)


class RedisCounters:
    """See `Counters`; made by `connected`."""

    def __init__(self, pool: ConnectionPool, window: float) -> None:
        storage = _Storage("async+redis://", implementation="redispy", connection_pool=pool)  # type: ignore[arg-type]
        self.windows = Windows(storage, window=window, slack=ROUNDING_S)
        self._redis = Redis(connection_pool=pool)
        self._enter = self._redis.register_script(ENTER)
        self._renew = self._redis.register_script(RENEW)
        self._held: dict[str, set[str]] = {}

    async def enter(self, key_id: str, limit: int) -> str | None:
        """See `Counters`."""
        place = uuid.uuid4().hex
        with _translated():
            entered = await self._enter(keys=[_name(key_id)], args=[limit, LEASE_S, place])
        if not entered:
            return None
        self._held.setdefault(key_id, set()).add(place)
        return place

    async def leave(self, key_id: str, place: str) -> None:
        """See `Counters`."""
        held = self._held.get(key_id, set())
        held.discard(place)
        if not held:
            self._held.pop(key_id, None)
        with _translated():
            await cast("Awaitable[Any]", self._redis.zrem(_name(key_id), place))

    async def renew(self) -> None:
        """Tells Redis what is still held."""
        for key_id, places in list(self._held.items()):
            with _translated():
                await self._renew(keys=[_name(key_id)], args=[LEASE_S, *places])

    async def keep_renewing(self) -> None:
        """Renews until it is cancelled. While Redis is away there is nothing to renew."""
        while True:
            await asyncio.sleep(LEASE_S / 3)
            try:
                await self.renew()
            except CountersDown:
                continue


@asynccontextmanager
async def connected(url: str, window: float = WINDOW_S) -> AsyncIterator[RedisCounters]:
    """Counters in the Redis at `redis://[:password@]host:port/db`; it need not be there yet."""
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS,
        timeout=PATIENCE_S,
        socket_connect_timeout=PATIENCE_S,
        socket_timeout=PATIENCE_S,
    )
    counters = RedisCounters(pool, window)
    renewing = asyncio.create_task(counters.keep_renewing())
    try:
        yield counters
    finally:
        renewing.cancel()
        await asyncio.wait((renewing,))
        await pool.aclose()


def _name(key_id: str) -> str:
    return f"tokenlane:parallel:{key_id}"


@contextmanager
def _translated() -> Any:
    try:
        yield
    except (RedisError, OSError) as error:
        raise CountersDown(type(error).__name__) from error
