"""How quickly a lane drains, and so when a client that was refused should come back. Pure.

Counting releases over a stretch of time would hold idle hours against a lane, and a burst after them would be told to
stay away for a minute. So what is averaged is how long a request holds its slot, which does not depend on how many
came: by Little's law, `running` requests that hold their slots for `held` seconds give `running / held` slots a
second.
"""

SHORTEST, LONGEST = 1.0, 60.0
"""Bounds of a Retry-After in seconds; official clients ignore a longer one."""

UNMEASURED = 5.0
"""Seconds that a slot is taken to be held while none has come free yet: about a short answer."""


class DrainRate:
    """Releases a second of one lane.

    Args:
        weight: of the newest request in the moving average of the time that slots are held.
    """

    __slots__ = ("_held", "_weight")

    def __init__(self, weight: float = 1 / 16) -> None:
        self._held: float | None = None
        self._weight = weight

    def record(self, held: float) -> None:
        """A slot came free that was held for so many seconds."""
        self._held = held if self._held is None else self._held + (held - self._held) * self._weight

    def rate(self, running: int) -> float:
        """Slots that come free a second while so many are held; where none is, as if one were."""
        held = UNMEASURED if self._held is None else self._held
        return max(running, 1) / max(held, 1e-6)

    def retry_after(self, places: int, running: int) -> float:
        """Seconds until `places` slots will have come free, within `SHORTEST` and `LONGEST`."""
        return min(max(places / self.rate(running), SHORTEST), LONGEST)
