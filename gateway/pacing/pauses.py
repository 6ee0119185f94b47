"""When no line begins although there is room for one. Pure.

A share of the time below one is kept by pauses: after a line that took half a second nothing runs for half a second at
a half, for 3.5 s at an eighth, but for `REST_S` at most, so that a batch always gets on. And who waits for a first
token goes first, for a while: prompts that an engine reads in the same step wait for each other.
"""

REST_S = 5.0
"""Seconds of a pause at most."""


class Pauses:
    """The pauses of one gateway's lines.

    Attributes:
        idle_since: when the last line ended, None while one runs; nothing ran before the first.
    """

    def __init__(self) -> None:
        self.idle_since: float | None = float("-inf")
        self._began = 0.0
        self._took = 0.0
        self._held_since: float | None = None

    def note(self, now: float, busy: int) -> None:
        """Takes how many lines run."""
        if busy:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = now
            self._took = now - self._began

    def began(self, now: float) -> None:
        """A line, or several."""
        self._began = now
        self._held_since = self.idle_since = None

    def resting(self, now: float, share: float) -> bool:
        """Whether a share of the time is kept by a pause that is not over."""
        if share >= 1 or self.idle_since is None:
            return False
        return now < self.idle_since + min(REST_S, self._took * (1 / share - 1))

    def holding(self, now: float, *, awaited: bool, patience: float) -> bool:
        """Whether somebody is let go first, for so many seconds from the first time that this held a line back."""
        if not awaited:
            self._held_since = None
            return False
        if self._held_since is None:
            self._held_since = now
        return now < self._held_since + patience
