"""When the next token should come: after the median of the last three gaps.

One outlier, such as a pause of the scheduler, does not change it; a lasting change is followed after two tokens.
"""


class Gap:
    """The running estimate for one choice. Times and gaps are seconds of the caller's clock.

    Attributes:
        usual: the gap between two tokens, None while it is not known. Of two gaps the smaller one counts.
    """

    __slots__ = ("_count", "_last", "_middle", "_older", "_previous", "_span", "usual")

    def __init__(self) -> None:
        self.usual: float | None = None
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
            self.usual = self._median(self._last)
        elif apart and self._last is not None:
            self._count += tokens
            self._last = self._span / self._count
            self.usual = self._median(self._last)

    @property
    def expected(self) -> float | None:
        """When tokens should come next; None while it cannot be known."""
        return None if self.usual is None or self._previous is None else self._previous + self.usual

    def _median(self, last: float) -> float:
        middle, older = self._middle, self._older
        if middle is None:
            return last
        return min(last, middle) if older is None else sorted((last, middle, older))[1]
