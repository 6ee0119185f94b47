"""Limits that several gateways count together, in a real Redis: `make test-redis`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.sim import SimEngine, SimSettings
from gateway.keys import Rights, mint
from gateway.quota import CountersDown
from gateway.quota.redis import RedisCounters, connected
from tests.fakes.keys import asks, kept_in, new_key
from tests.fakes.running_gateway import RunningGateway, asked, running_gateway, settings_for
from tests.fakes.running_redis import free_port, running_redis
from tests.service.test_limits import most_at_once

pytestmark = pytest.mark.redis
SIM = SimSettings(ttft_ms=20, itl_ms=1, tokens=20)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    with running_redis(tmp_path) as url:
        yield url


@asynccontextmanager
async def two_gateways(folder: Path, url: str) -> AsyncIterator[tuple[list[RunningGateway], SimEngine]]:
    """Two gateways with one database, one Redis and one engine."""
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(SimEngine(SIM))
        changes: dict[str, Any] = {**kept_in(folder), "keys": {"refresh_s": 60, "redis_url": url}}
        gateways = [await stack.enter_async_context(running_gateway(settings_for(engine, **changes))) for _ in range(2)]
        yield gateways, engine


async def test_two_gateways_together_never_run_more_than_a_key_may(tmp_path: Path, redis: str) -> None:
    """Case H62."""
    _, secret = await new_key(tmp_path, parallel=4)
    async with two_gateways(tmp_path, redis) as (gateways, engine):
        answers = await asyncio.gather(*(asks(gateways[n % 2].http, secret, stream=True) for n in range(64)))
        assert {answer.status_code for answer in answers} == {200, 429}
        assert most_at_once(asked(engine)) <= 4
        again = [await asks(gateways[n % 2].http, secret) for n in range(8)]
        assert [answer.status_code for answer in again] == [200] * 8


async def test_two_gateways_count_requests_and_tokens_together(tmp_path: Path, redis: str) -> None:
    """Case H62."""
    _, secret = await new_key(tmp_path, requests_per_minute=3, tokens_per_minute=100_000)
    async with two_gateways(tmp_path, redis) as ((one, two), _):
        answers = [await asks(gateway.http, secret) for gateway in (one, two, one, two)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [a.headers["x-ratelimit-remaining-requests"] for a in answers] == ["2", "1", "0", "0"]
        used = answers[0].json()["usage"]["total_tokens"]
        assert answers[2].headers["x-ratelimit-remaining-tokens"] == str(100_000 - 2 * used)
        assert 1 <= int(answers[3].headers["retry-after"]) <= 61


async def test_requests_go_on_while_redis_is_away_and_are_counted_together_when_it_is_back(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, requests_per_minute=50, parallel=2)
    port = free_port()
    async with two_gateways(tmp_path, f"redis://127.0.0.1:{port}/0") as ((one, two), _):
        assert [(await asks(gateway.http, secret)).status_code for gateway in (one, two)] == [200, 200]
        assert one.service.quotas._away_until is not None
        with running_redis(tmp_path, port):
            for gateway in (one, two):
                gateway.service.quotas._away_until = 0.0
                assert (await asks(gateway.http, secret)).status_code == 200
                assert gateway.service.quotas._away_until is None
        assert (await asks(one.http, secret)).status_code == 200


async def test_what_a_gateway_that_died_held_is_free_after_a_lease_and_what_lives_is_renewed(redis: str) -> None:
    key = mint("k", Rights(parallel=1), 0.0)[0]
    async with connected(redis) as dead, connected(redis) as alive:
        assert await dead.enter(key.id, 1) is not None
        assert await alive.enter(key.id, 1) is None
        await _age(alive, key.id)
        place = await alive.enter(key.id, 1)
        assert place is not None
        await alive._redis.zadd(f"tokenlane:parallel:{key.id}", {place: 10**10})
        await alive.renew()
        ((_, until),) = await alive._redis.zrange(f"tokenlane:parallel:{key.id}", 0, -1, withscores=True)
        assert until < 10**10, "its time was set anew"
        await alive.leave(key.id, place)
        assert not alive._held


async def _age(counters: RedisCounters, key_id: str) -> None:
    """Lets every lease of a key run out."""
    name = f"tokenlane:parallel:{key_id}"
    for member in await counters._redis.zrange(name, 0, -1):
        await counters._redis.zadd(name, {member: 1})


async def test_a_redis_that_is_not_there_is_told_as_such() -> None:
    async with connected(f"redis://127.0.0.1:{free_port()}/0") as counters:
        with pytest.raises(CountersDown):
            await counters.enter("k", 1)
        with pytest.raises(CountersDown):
            await counters.windows.add("k", 1, 1)
