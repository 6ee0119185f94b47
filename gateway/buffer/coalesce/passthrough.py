"""Nothing is held: every event leaves as it came."""

from gateway.buffer.coalesce.strategy import NOTHING, Window
from gateway.buffer.outbox import Outbox
from gateway.telemetry import FlushReason
from gateway.wire import sse
from gateway.wire.chunks import Reading


class Passthrough:
    """The strategy for streams whose events are numbered, and for whoever wants the engine's own."""

    pending = 0
    since: float | None = None

    def __init__(self, window: Window, outbox: Outbox) -> None:
        self._outbox = outbox
        self.reader_busy = False

    def match(self, data: bytes, now: float) -> int:  # noqa: D102
        return 0

    def match_all(self, data: bytes, now: float) -> int:  # noqa: D102
        return 0

    def add(self, reading: Reading, now: float) -> None:  # noqa: D102
        reason = FlushReason.PASS if reading.text or reading.tokens else None
        self._outbox.put(sse.encode(reading.data, reading.name), reading.tokens, reason)

    def due(self, now: float) -> bool:  # noqa: D102
        return False

    def collect(self, now: float) -> None:
        """Nothing waits."""

    def wake_at(self) -> float | None:  # noqa: D102
        return None

    def may_wait(self) -> tuple[int, float]:  # noqa: D102
        return NOTHING

    def flush(self, reason: FlushReason) -> None:
        """Nothing waits."""
