"""How many lines may begin now: by a pace of their own, or as part of a lane that is paced as a whole."""

from dataclasses import dataclass

from gateway.admission.gate import Gate
from gateway.pacing.pacer import Pacer


@dataclass(frozen=True, slots=True)
class Own:
    """Lines in a lane with engines of its own: they alone are paced."""

    pacer: Pacer

    @property
    def limit(self) -> int:
        """Lines that may run at once now."""
        return min(self.ceiling, self.pacer.limit)

    @property
    def ceiling(self) -> int:
        """The limit never is above."""
        return self.pacer.ceiling

    def room(self, running: int) -> int:
        """How many lines may begin, where so many run."""
        return self.pacer.look(running) - running

    def began(self) -> None:
        """Some have begun."""
        self.pacer.began()


@dataclass(frozen=True, slots=True)
class Common(Own):
    """Lines among the other requests of a lane whose gate keeps the pace: they fill what those leave.

    One line is always begun, to stand in the lane's queue with everybody else.

    Args:
        pacer: that the gate asks.
        gate: of the lane.
        lane: its name.
        most: lines that may run at once at most.
    """

    gate: Gate
    lane: str
    most: int

    @property
    def ceiling(self) -> int:
        """The limit never is above."""
        return self.most

    def room(self, running: int) -> int:
        """How many lines may begin, where so many run."""
        if self.pacer.paused:
            return 0
        lane = self.gate.statistics().lanes[self.lane]
        free = self.pacer.limit - max(running, lane.running + lane.waiting)
        return min(self.most - running, max(free, 0 if running else 1))

    def began(self) -> None:
        """Some have begun; the gate has told the pacer of them, or will."""
