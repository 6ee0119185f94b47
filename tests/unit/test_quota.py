"""The limits of a key, counted in this process."""

import asyncio
import math
from typing import Any

import pytest

from gateway.errors import QuotaExceeded
from gateway.keys import Key, Rights, mint
from gateway.quota import CountersDown, Grant, Quotas
from gateway.quota.counters import Windows
from gateway.quota.memory import MemoryCounters

WINDOW = 60.0


def key(**rights: Any) -> Key:
    return mint("team", Rights(**rights), 0.0)[0]


class Clock:
    """A monotonic clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Away(MemoryCounters):
    """Shared counters whose server can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked = 0

    async def enter(self, key_id: str, limit: int) -> str | None:
        self.asked += 1
        if self.away:
            raise CountersDown("away")
        return await super().enter(key_id, limit)

    async def leave(self, key_id: str, place: str) -> None:
        if self.away:
            raise CountersDown("away")
        await super().leave(key_id, place)


def quotas(**more: Any) -> tuple[Quotas, MemoryCounters]:
    counters = MemoryCounters()
    return Quotas(Clock(), local=counters, **more), counters


def refusal(grant: Grant) -> QuotaExceeded:
    assert grant.refusal is not None
    return grant.refusal


async def test_of_many_at_once_only_as_many_as_allowed_get_a_place() -> None:
    limits, counters = quotas()
    team = key(parallel=4)
    grants = await asyncio.gather(*(limits.enter(team) for _ in range(64)))
    good = [grant for grant in grants if grant.refusal is None]
    assert len(good) == 4
    assert {refusal(grant).kind for grant in grants if grant.refusal} == {"parallel"}
    for grant in good:
        await limits.leave(grant, tokens=0, asked=True)
    assert not counters.running
    assert (await limits.enter(team)).refusal is None


async def test_requests_are_counted_down_and_the_one_too_many_is_told_when_to_come_back() -> None:
    limits, _ = quotas()
    team = key(requests_per_minute=3)
    remaining = []
    for _ in range(3):
        grant = await limits.enter(team)
        await limits.leave(grant, tokens=0, asked=True)
        remaining.append(dict(grant.headers())["x-ratelimit-remaining-requests"])
    assert remaining == ["2", "1", "0"]
    refused = await limits.enter(team)
    headers = dict(refused.headers())
    assert headers["x-ratelimit-limit-requests"] == "3"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert 0 < refusal(refused).retry_after <= WINDOW
    assert headers["x-ratelimit-reset-requests"] == f"{refusal(refused).retry_after:.3f}s"


async def test_a_refused_request_uses_up_nothing() -> None:
    limits, counters = quotas()
    team = key(requests_per_minute=2, tokens_per_minute=10, parallel=1)
    for _ in range(5):
        grant = await limits.enter(team)
        assert grant.refusal is None
        await limits.leave(grant, tokens=0, asked=False)
    first = await limits.enter(team)
    assert refusal(await limits.enter(team)).kind == "parallel"
    await limits.leave(first, tokens=10, asked=True)
    assert refusal(await limits.enter(team)).kind == "tokens"
    assert not counters.running
    assert (await counters.windows.look(f"tokenlane/requests/{team.id}", 2)).used == 1


async def test_tokens_are_charged_at_the_end_and_what_was_too_many_is_not_below_zero() -> None:
    limits, _ = quotas()
    team = key(tokens_per_minute=100)
    grant = await limits.enter(team)
    assert dict(grant.headers())["x-ratelimit-remaining-tokens"] == "100"
    await limits.leave(grant, tokens=99, asked=True)
    grant = await limits.enter(team)
    assert dict(grant.headers())["x-ratelimit-remaining-tokens"] == "1"
    await limits.leave(grant, tokens=5000, asked=True)
    refused = await limits.enter(team)
    assert refusal(refused).kind == "tokens"
    assert dict(refused.headers())["x-ratelimit-remaining-tokens"] == "0"


async def test_keys_do_not_share_their_limits() -> None:
    limits, _ = quotas()
    one, two = key(requests_per_minute=1, parallel=1), key(requests_per_minute=1, parallel=1)
    assert (await limits.enter(one)).refusal is None
    assert (await limits.enter(two)).refusal is None
    assert (await limits.enter(one)).refusal is not None


async def test_who_comes_back_when_told_is_let_in() -> None:
    """The one test that waits: a window of a second."""
    limits = Quotas(asyncio.get_running_loop().time, local=MemoryCounters(window=1))
    team = key(requests_per_minute=1)
    await limits.leave(await limits.enter(team), tokens=0, asked=True)
    wait = refusal(await limits.enter(team)).retry_after
    assert 0 < wait <= 1
    await asyncio.sleep(math.ceil(wait))
    assert (await limits.enter(team)).refusal is None


async def test_a_request_of_an_old_window_is_not_given_back_to_a_new_one() -> None:
    clock = Clock()
    counters = MemoryCounters()
    limits = Quotas(clock, local=counters)
    team = key(requests_per_minute=2)
    grant = await limits.enter(team)
    clock.now += WINDOW + 1
    await limits.leave(grant, tokens=0, asked=False)
    assert (await counters.windows.look(f"tokenlane/requests/{team.id}", 2)).used == 1


async def test_while_what_is_shared_is_away_each_gateway_counts_for_itself() -> None:
    clock, shared, said = Clock(), Away(), list[bool]()
    limits = Quotas(clock, shared, MemoryCounters(), said.append)
    team = key(parallel=1)
    held = await limits.enter(team)
    shared.away = True
    assert (await limits.enter(team)).refusal is None, "a count of its own"
    assert refusal(await limits.enter(team)).kind == "parallel"
    assert shared.asked == 2, "it is not asked again at once"
    await limits.leave(held, tokens=0, asked=True)
    clock.now += 6
    shared.away = False
    assert refusal(await limits.enter(team)).kind == "parallel", "the first one was never given back to it"
    assert said == [False, True]


async def test_a_request_that_is_cancelled_on_its_way_in_gives_its_place_back() -> None:
    class Slow(Windows):
        async def add(self, name: str, amount: int, limit: int) -> Any:
            await asyncio.Event().wait()

    counters = MemoryCounters()
    counters.windows = Slow(counters.windows._storage)
    limits = Quotas(Clock(), local=counters)
    entering = asyncio.create_task(limits.enter(key(requests_per_minute=1, parallel=1)))
    await asyncio.sleep(0.01)
    assert sum(counters.running.values()) == 1
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not counters.running
