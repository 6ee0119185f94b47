"""Counting in this process: for one gateway, and for each of several as long as what they share is away."""

import uuid
from collections import Counter

from limits.aio.storage import MemoryStorage

from gateway.quota.counters import WINDOW_S, Windows


class MemoryCounters:
    """See `Counters`. Nothing here waits for anything."""

    def __init__(self, window: float = WINDOW_S) -> None:
        self.windows = Windows(MemoryStorage(), window=window)
        self.running: Counter[str] = Counter()

    async def enter(self, key_id: str, limit: int) -> str | None:
        """See `Counters`."""
        if self.running[key_id] >= limit:
            return None
        self.running[key_id] += 1
        return uuid.uuid4().hex

    async def leave(self, key_id: str, place: str) -> None:
        """See `Counters`."""
        self.running[key_id] -= 1
        if not self.running[key_id]:
            del self.running[key_id]
