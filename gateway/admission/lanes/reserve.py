"""One engine for an interactive lane and others: slots are kept in reserve, so that a chat finds one free.

    the interactive lane waits                          it goes next
    another lane, more than `reserve` slots are free    it goes next; among several the one that waited longest
    another lane, at most `reserve` are free            it goes next only if it runs fewer than `trickle`
    else                                                the slot stays free

The reserve is of slots that are free, not of slots that the interactive lane holds: a running chat does not use it
up, and the next one finds a slot at once. The trickle is why a long batch always moves: a lane that runs fewer than
`trickle` may dip into the reserve, and gets a slot whenever the interactive lane leaves one free. While the
interactive lane itself waits, nobody else is admitted: then there is no room to share.
"""

from collections.abc import Sequence

from gateway.admission.lanes.policy import LaneView


class Reserve:
    """Strict priority for one lane, with slots held free for it.

    Args:
        interactive: the lane that goes first.
        reserve: slots that other lanes leave free. With as many as the gate has, others run by the trickle alone.
        trickle: requests of each other lane that may run whatever the reserve says.
    """

    def __init__(self, interactive: str, reserve: int, trickle: int = 1) -> None:
        self._interactive = interactive
        self._reserve = reserve
        self._trickle = trickle

    def choose(self, waiting: Sequence[LaneView], free: int, total: int) -> str | None:
        """The lane that goes next, or None where the free slots are the reserve."""
        oldest: LaneView | None = None
        for lane in waiting:
            if lane.name == self._interactive:
                return lane.name
            if not self._may_take(lane, free, total):
                continue
            if oldest is None or lane.head < oldest.head:
                oldest = lane
        return None if oldest is None else oldest.name

    def _may_take(self, lane: LaneView, free: int, total: int) -> bool:
        return free > self._reserve or lane.running < self._trickle or free == total
