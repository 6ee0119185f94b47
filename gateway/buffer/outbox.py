"""What is on its way to the client: encoded events in order, their size, and the account of why text left."""

from bisect import bisect_left

from gateway.telemetry import TOKENS_BUCKETS, FlushReason, StreamStats
from gateway.wire import sse


class Outbox:
    """Encoded events that wait to be taken. `size` is in bytes."""

    __slots__ = ("_parts", "_stats", "size")

    def __init__(self, stats: StreamStats) -> None:
        self._stats = stats
        self._parts: list[bytes] = []
        self.size = 0

    def put(self, data: bytes, name: bytes = b"") -> None:
        """Adds one event."""
        self.put_encoded(sse.encode(data, name))

    def put_encoded(self, event: bytes) -> None:
        """Adds one event that is encoded already."""
        self._parts.append(event)
        self.size += len(event)
        self._stats.events_out += 1

    def put_text(self, event: bytes, tokens: int, reason: FlushReason) -> None:
        """Adds one event of text, encoded already, and counts it."""
        self._parts.append(event)
        self.size += len(event)
        self._stats.events_out += 1
        self.flushed(tokens, reason)

    def flushed(self, tokens: int, reason: FlushReason) -> None:
        """Counts text that left the buffer."""
        stats = self._stats
        flushes = stats.flushes
        flushes[reason] = flushes.get(reason, 0) + 1
        stats.flush_tokens[bisect_left(TOKENS_BUCKETS, tokens)] += 1
        stats.flush_tokens_sum += tokens

    def take(self) -> bytes:
        """Everything, which is gone from here then."""
        parts = self._parts
        if len(parts) == 1:
            taken = parts.pop()
        else:
            taken = b"".join(parts)
            parts.clear()
        self.size = 0
        return taken
