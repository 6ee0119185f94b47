"""First come, first served, whichever the lane: for a gate that serves one lane."""

from collections.abc import Sequence

from gateway.admission.lanes.policy import LaneView


class Fifo:
    """Whoever has waited longest goes next. One lane can take every slot."""

    def choose(self, waiting: Sequence[LaneView], free: int, total: int) -> str | None:
        """The lane whose head arrived first."""
        if len(waiting) == 1:
            return waiting[0].name
        return min(waiting, key=lambda lane: lane.head).name
