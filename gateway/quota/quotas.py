"""What a request takes of its key's limits, and gives back.

    enter    a place, one request, and a look at the tokens: all of it, or nothing and the refusal
    leave    the place goes back; the tokens are charged; the request too goes back if it came to no engine

Tokens are known at the end alone: a request is let in while any are left, and what it uses may be more. So of tokens at
most as much too many are used in a minute as the parallel requests of a key can use.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from gateway.errors import QuotaExceeded
from gateway.keys.key import Key
from gateway.quota.counters import Counters, CountersDown, Standing

AWAY_S = 5.0
"""Seconds for which this gateway counts alone after what is shared could not be reached."""

PARALLEL_RETRY_S = 1.0
"""Seconds to say where all places are taken: nobody knows when a stream ends."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one request holds, or why it holds nothing.

    Attributes:
        key: whose it is.
        counters: where it is counted.
        refusal: None if it may go on.
        place: its place among the parallel requests, where they are limited.
        requests: how the requests of the window stand, this one counted; None: not limited.
        tokens: the same for tokens, as they were at the start.
        at: when it was granted, on the loop's clock.
    """

    key: Key
    counters: Counters
    refusal: QuotaExceeded | None = None
    place: str | None = None
    requests: Standing | None = None
    tokens: Standing | None = None
    at: float = 0.0

    def headers(self) -> tuple[tuple[str, str], ...]:
        """`x-ratelimit-*` as OpenAI has them; durations in seconds, as in `12.345s`."""
        found: list[tuple[str, str]] = []
        for kind, standing in (("requests", self.requests), ("tokens", self.tokens)):
            if standing is not None:
                found += [
                    (f"x-ratelimit-limit-{kind}", str(standing.limit)),
                    (f"x-ratelimit-remaining-{kind}", str(standing.remaining)),
                    (f"x-ratelimit-reset-{kind}", f"{standing.reset:.3f}s"),
                ]
        return tuple(found)


class Quotas:
    """The limits of all keys.

    Args:
        clock: monotonic seconds.
        shared: counters that several gateways share, None: there is only this one.
        local: counters of this gateway, used also while the shared ones are away; None: made when they are needed.
        report: told once when the shared ones go away (False) and when they are back (True).
    """

    def __init__(
        self,
        clock: Callable[[], float],
        shared: Counters | None = None,
        local: Counters | None = None,
        report: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._shared = shared
        self._local = local
        self._report = report
        self._away_until: float | None = None

    async def enter(self, key: Key) -> Grant:
        """Takes what a request needs, or nothing and says why."""
        if self._shared is not None and (self._away_until is None or self._clock() >= self._away_until):
            try:
                grant = await self._enter(self._shared, key)
            except CountersDown:
                self._went_away()
            else:
                self._came_back()
                return grant
        return await self._enter(await self._own(), key)

    async def leave(self, grant: Grant, *, tokens: int, asked: bool) -> None:
        """Gives back what a request held.

        Args:
            grant: of `enter`.
            tokens: used by it.
            asked: an engine worked on it; else it does not count.
        """
        try:
            await self._leave(grant, tokens, asked=asked)
        except CountersDown:
            self._went_away()

    async def _enter(self, counters: Counters, key: Key) -> Grant:
        place = None
        if key.parallel is not None:
            place = await counters.enter(key.id, key.parallel)
            if place is None:
                return Grant(key, counters, _busy(key.parallel))
        try:
            requests, tokens = await _windows(counters, key)
        except BaseException:
            if place is not None:
                await counters.leave(key.id, place)
            raise
        refusal = _spent("requests", requests, 1) or _spent("tokens", tokens, 0)
        grant = Grant(key, counters, refusal, place, requests, tokens, self._clock())
        if refusal is not None:
            await self._leave(grant, 0, asked=False)
        return grant

    async def _leave(self, grant: Grant, tokens: int, *, asked: bool) -> None:
        key, windows = grant.key, grant.counters.windows
        steps: list[Coroutine[None, None, object]] = []
        if grant.place is not None:
            steps.append(grant.counters.leave(key.id, grant.place))
        if key.tokens_per_minute is not None and tokens:
            steps.append(windows.add(_tokens(key), tokens, key.tokens_per_minute))
        if grant.requests is not None and not asked and self._clock() < grant.at + grant.requests.reset:
            steps.append(windows.add(_requests(key), -1, grant.requests.limit))
        if len(steps) > 1:
            await asyncio.gather(*steps)
        elif steps:
            await steps[0]

    async def _own(self) -> Counters:
        if self._local is None:
            made = await asyncio.to_thread(_counters)
            self._local = self._local or made
        return self._local

    def _went_away(self) -> None:
        if self._away_until is None:
            self._report(False)
        self._away_until = self._clock() + AWAY_S

    def _came_back(self) -> None:
        if self._away_until is not None:
            self._away_until = None
            self._report(True)


def _counters() -> Counters:
    from gateway.quota.memory import MemoryCounters  # noqa: PLC0415 - takes long, and only limits need it

    return MemoryCounters()


async def _windows(counters: Counters, key: Key) -> tuple[Standing | None, Standing | None]:
    """Counts the request and looks at the tokens, as far as they are limited; both at once where both are."""
    requests, tokens, windows = key.requests_per_minute, key.tokens_per_minute, counters.windows
    if requests is None:
        return None, None if tokens is None else await windows.look(_tokens(key), tokens)
    if tokens is None:
        return await windows.add(_requests(key), 1, requests), None
    return await asyncio.gather(windows.add(_requests(key), 1, requests), windows.look(_tokens(key), tokens))


def _requests(key: Key) -> str:
    return f"tokenlane/requests/{key.id}"


def _tokens(key: Key) -> str:
    return f"tokenlane/tokens/{key.id}"


def _busy(limit: int) -> QuotaExceeded:
    message = f"This key may have {limit} requests at once, and they are running."
    return QuotaExceeded(message, retry_after=PARALLEL_RETRY_S, kind="parallel")


def _spent(kind: str, standing: Standing | None, counted: int) -> QuotaExceeded | None:
    """The refusal where nothing was left before this request; `counted` says how much of `used` is its own."""
    if standing is None or standing.used - counted < standing.limit:
        return None
    message = f"This key may use {standing.limit} {kind} a minute, and they are used up."
    return QuotaExceeded(message, retry_after=standing.reset, kind=kind)
