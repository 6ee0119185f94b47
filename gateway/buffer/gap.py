"""When the next token should come: after the median of the last three gaps.

One outlier, such as a pause of the scheduler, does not change it; a lasting change is followed after two tokens.
"""


class Gap:
    """The running estimate for one choice. Times and gaps are seconds of the caller's clock."""

    __slots__ = ("_count", "_last", "_middle", "_older", "_previous", "_span")

    def __init__(self) -> None:
        self._previous: float | None = None  # when tokens came last
        self._last: float | None = None  # the last three gaps, newest first
        self._middle: float | None = None
        self._older: float | None = None
        self._span = 0.0  # from the arrival before to this one, and the tokens that came in it
        self._count = 1

    def came(self, now: float, tokens: int = 1, *, apart: bool = False) -> None:
        """Tokens came. Those that come at the same time are one arrival, unless they were sent `apart`.

        Tokens that waited together, in the kernel say, came one after the other since the arrival before.
        """
        previous = self._previous
        if previous is None:
            self._previous = now
        elif previous != now:
            self._previous = now
            self._span, self._count = now - previous, tokens if apart else 1
            self._older, self._middle, self._last = self._middle, self._last, self._span / self._count
        elif apart and self._last is not None:
            self._count += tokens
            self._last = self._span / self._count

    @property
    def usual(self) -> float | None:
        """The gap between two tokens, None while it is not known."""
        expected = self.expected
        return None if expected is None or self._previous is None else expected - self._previous

    @property
    def expected(self) -> float | None:
        """When tokens should come next; None while it cannot be known. Of two gaps the smaller one counts."""
        a, b, c = self._last, self._middle, self._older
        if a is None or self._previous is None:
            return None
        if b is None:
            return self._previous + a
        low, high = (a, b) if a < b else (b, a)
        if c is None or c <= low:
            return self._previous + low
        return self._previous + min(c, high)
