"""When the next token should come: after the median of the last three gaps.

One outlier, such as a pause of the scheduler, does not change it; a lasting change is followed after two tokens.
"""


class Gap:
    """The running estimate for one choice. Times and gaps are seconds of the caller's clock.

    Attributes:
        usual: the gap between two tokens, None while it is not known. Of two gaps the smaller one counts.
    """

    __slots__ = ("_count", "_gaps", "_previous", "_span", "usual")

    def __init__(self) -> None:
        self.usual: float | None = None
        self._previous: float | None = None  # when tokens came last
        self._gaps: tuple[float, ...] = ()  # the last three, newest first
        self._span = 0.0  # from the arrival before to this one, and the tokens that came in it
        self._count = 1

    def came(self, now: float, tokens: int = 1, *, apart: bool = False) -> None:
        """Tokens came. Those that come at the same time are one arrival, unless they were sent `apart`.

        Tokens that waited together, in the kernel say, came one after the other since the arrival before.
        """
        previous = self._previous
        if previous is None:
            self._previous = now
            return
        if previous != now:
            self._previous = now
            self._span, self._count = now - previous, tokens if apart else 1
            before = self._gaps[:2]
        elif apart and self._gaps:
            self._count += tokens
            before = self._gaps[1:]
        else:
            return
        self._gaps = gaps = (self._span / self._count, *before)
        self.usual = sorted(gaps)[(len(gaps) - 1) // 2]

    @property
    def expected(self) -> float | None:
        """When tokens should come next; None while it cannot be known."""
        return None if self.usual is None or self._previous is None else self._previous + self.usual
