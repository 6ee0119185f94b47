"""What a lane policy sees, and what it decides."""

from collections.abc import Sequence
from typing import Protocol


class LaneView(Protocol):
    """One lane in which somebody waits."""

    @property
    def name(self) -> str:
        """The lane's name."""

    @property
    def waiting(self) -> int:
        """How many wait; at least one."""

    @property
    def running(self) -> int:
        """Slots that the lane holds now."""

    @property
    def head(self) -> int:
        """The arrival number of the one who has waited longest; it grows over all lanes of the gate."""


class LanePolicy(Protocol):
    """Says who gets the next slot. It is asked once a slot, and remembers nothing."""

    def choose(self, waiting: Sequence[LaneView], free: int, total: int) -> str | None:
        """The name of the lane that goes next.

        Args:
            waiting: the lanes that may take a slot: somebody waits, and the lane is below its own ceiling; at least
                one.
            free: slots that nobody holds; at least one.
            total: slots of the gate, `free` included.

        Returns:
            A name out of `waiting`, or None to leave the slot free until the next change. With `free == total` it has
            to name a lane: where nothing runs, nothing will change.
        """
