"""Where it is counted: windows of a minute, kept by a storage of `limits`, and places for requests that run.

A window opens with the first count and is over a minute later, when everything in it is forgotten: what is said of its
end is exact, and an overdraft is not carried on. Counts can be taken back as long as their window is the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from limits.aio.storage import Storage

WINDOW_S = 60
"""Seconds of a window."""


class CountersDown(Exception):
    """The counters cannot be reached."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a key has left of one limit: of `limit`, `used` in a window that is over in `reset` seconds."""

    limit: int
    used: int
    reset: float

    @property
    def remaining(self) -> int:
        """At least 0: what is counted at the end may be more than was left."""
        return max(0, self.limit - self.used)


class Windows:
    """Counts by name over a storage.

    Args:
        storage: of `limits`.
        window: seconds.
        slack: by how many seconds the storage may tell the end of a window too early.
        clock: seconds of the epoch, as the storage's.
    """

    def __init__(
        self,
        storage: "Storage",
        *,
        window: float = WINDOW_S,
        slack: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._window = window
        self._slack = slack
        self._clock = clock

    async def add(self, name: str, amount: int, limit: int) -> Standing:
        """Counts, whether or not the limit allows it; below zero takes back."""
        used = await self._storage.incr(name, self._window, amount)  # type: ignore[arg-type]  # seconds may be broken
        return Standing(limit, used, await self._reset(name))

    async def look(self, name: str, limit: int) -> Standing:
        """How it stands."""
        used = await self._storage.get(name)
        return Standing(limit, used, await self._reset(name) if used > 0 else 0.0)

    async def _reset(self, name: str) -> float:
        left = await self._storage.get_expiry(name) - self._clock()
        return max(0.0, left + self._slack)


class Counters(Protocol):
    """A place where it is counted. Everything raises CountersDown."""

    @property
    def windows(self) -> Windows:
        """Requests and tokens."""

    async def enter(self, key_id: str, limit: int) -> str | None:
        """A place for one request, by a name that gives it back; None: all are taken."""

    async def leave(self, key_id: str, place: str) -> None:
        """Gives a place back."""
