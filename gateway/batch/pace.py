"""How many lines may begin now: by a pace of their own, or as part of a lane that is paced as a whole."""

from dataclasses import dataclass
from typing import Protocol

from gateway.admission.gate import Gate
from gateway.pacing.pacer import Pacer


class Pace(Protocol):
    """What the runner asks. `limit` is how many may run at once now, `ceiling` what that never is above."""

    @property
    def limit(self) -> int:
        """Lines that may run at once."""

    @property
    def ceiling(self) -> int:
        """The limit never is above."""

    @property
    def look_s(self) -> float:
        """Seconds until the next question."""

    @property
    def paused(self) -> bool:
        """Whether there is room for a line, which does not begin for a moment."""

    def room(self, running: int) -> int:
        """How many lines may begin, where so many run."""

    def began(self) -> None:
        """Some have begun."""


@dataclass(frozen=True, slots=True)
class Own:
    """Lines in a lane with engines of its own: they alone are paced."""

    pacer: Pacer

    @property
    def limit(self) -> int:
        """Lines that may run at once."""
        return self.pacer.limit

    @property
    def ceiling(self) -> int:
        """The limit never is above."""
        return self.pacer.ceiling

    @property
    def look_s(self) -> float:
        """Seconds until the next question."""
        return self.pacer.look_s

    @property
    def paused(self) -> bool:
        """Whether there is room for a line, which does not begin for a moment."""
        return self.pacer.paused

    def room(self, running: int) -> int:
        """How many lines may begin, where so many run."""
        return self.pacer.look(running) - running

    def began(self) -> None:
        """Some have begun."""
        self.pacer.began()


@dataclass(frozen=True, slots=True)
class Common:
    """Lines among the other requests of a lane whose gate keeps the pace: they fill what those leave.

    One line is always begun, to stand in the lane's queue with everybody else.

    Args:
        gate: of the lane.
        lane: its name.
        pacer: that the gate asks.
        ceiling: of lines.
    """

    gate: Gate
    lane: str
    pacer: Pacer
    ceiling: int

    @property
    def limit(self) -> int:
        """Lines that may run at once."""
        return min(self.ceiling, self.pacer.limit)

    @property
    def look_s(self) -> float:
        """Seconds until the next question."""
        return self.pacer.look_s

    @property
    def paused(self) -> bool:
        """Whether there is room for a line, which does not begin for a moment."""
        return self.pacer.paused

    def room(self, running: int) -> int:
        """How many lines may begin, where so many run."""
        if self.paused:
            return 0
        lane = self.gate.statistics().lanes[self.lane]
        free = self.pacer.limit - max(running, lane.running + lane.waiting)
        return min(self.ceiling - running, max(free, 0 if running else 1))

    def began(self) -> None:
        """Some have begun; the gate has told the pacer of them, or will."""
