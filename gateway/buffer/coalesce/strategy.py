"""The protocol of a strategy, and the window that bounds what one may hold."""

from dataclasses import dataclass
from typing import Protocol

from gateway.telemetry import FlushReason
from gateway.wire.chunks import Reading


@dataclass(frozen=True, slots=True)
class Window:
    """How much text may wait: `tokens`, and `delay` seconds of the oldest one."""

    tokens: int = 4
    delay: float = 0.040


NOTHING = (0, 0.0)
"""What may wait where everything is to be given at once; see `Strategy.may_wait`."""


class Strategy(Protocol):
    """Decides when text leaves and in how many events, never what is said.

    `reader_busy`: the client does not read: nothing is due but what cannot be held.
    `pending`: bytes held, as they came.
    `since`: what is given next came at this time at the earliest; None: at the time that is given with it.
    """

    reader_busy: bool
    pending: int
    since: float | None

    def match(self, data: bytes, now: float) -> int:
        """Takes an unnamed event if it is known without reading its JSON. The tokens in it; 0: it was not taken."""

    def match_all(self, data: bytes, now: float) -> int:
        """Takes whole encoded events if all are known without reading their JSON. The tokens in them; 0: none taken."""

    def add(self, reading: Reading, now: float) -> None:
        """Takes any other event."""

    def due(self, now: float) -> bool:
        """Whether `collect` would let something go."""

    def collect(self, now: float) -> None:
        """Lets go what is due."""

    def wake_at(self) -> float | None:
        """When something becomes due by itself."""

    def may_wait(self) -> tuple[int, float]:
        """What of the bytes that come next need not be given at once: `(size, rest)`.

        `size`: from so many on they should be given soon; fewer are one token, which would be held anyway. 1: any,
        soon: together with that of other streams. 0: any, at once.
        `rest`: seconds in which the window should be full once so many are there; 0 if it should not be.
        """

    def flush(self, reason: FlushReason) -> None:
        """Lets go everything."""
