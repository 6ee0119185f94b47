"""What is on its way to the client: encoded events in order, their size, and the account of why text left."""

from bisect import bisect_left

from gateway.telemetry import TOKENS_BUCKETS, FlushReason, StreamStats


class Outbox:
    """Encoded events that wait to be taken. `size` is in bytes."""

    __slots__ = ("_parts", "_stats", "size")

    def __init__(self, stats: StreamStats) -> None:
        self._stats = stats
        self._parts: list[bytes] = []
        self.size = 0

    def put(self, event: bytes, tokens: int = 0, reason: FlushReason | None = None) -> None:
        """Adds one encoded event; `reason`: it is text of so many tokens, and why it leaves."""
        stats = self._stats
        self._parts.append(event)
        self.size += len(event)
        stats.events_out += 1
        if reason is not None:
            flushes = stats.flushes
            flushes[reason] = flushes.get(reason, 0) + 1
            stats.flush_tokens[bisect_left(TOKENS_BUCKETS, tokens)] += 1
            stats.flush_tokens_sum += tokens

    def take(self) -> bytes:
        """Everything, which is gone from here then."""
        taken = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return taken
