"""The greatest concurrency that passes a test: doubling until it fails, then bisection.

A level that fails is tried a second time, and only then believed, since one stray pause of a machine would otherwise
cut the search short. It stops when the least level that failed is at most 5 % (or 1) above the greatest that passed,
when the start has failed, or when the greatest level allowed has passed. It assumes that what fails at a level fails
above it.
"""

from dataclasses import dataclass

PRECISION = 0.05
TRIES = 2


@dataclass(slots=True)
class Search:
    """The state of one search. Ask `level`, measure there, `tell`; over when `level` is None.

    Args:
        start: first level.
        most: greatest level.
    """

    start: int = 1
    most: int = 1024
    passed: int = 0
    failed: int | None = None
    tries: int = 0

    @property
    def level(self) -> int | None:
        """Where to measure next."""
        if self.failed is None:
            return None if self.passed >= self.most else min(self.most, self.passed * 2 or self.start)
        if self.passed == 0 or self.failed - self.passed <= max(1, PRECISION * self.passed):
            return None
        return (self.passed + self.failed) // 2

    @property
    def stopped(self) -> str:
        """Why it is over."""
        if self.level is not None:
            return "it was interrupted"
        if self.failed is None:
            return f"the greatest level allowed, {self.most}, passed"
        if self.passed == 0:
            return f"the start, {self.failed}, failed {TRIES} times"
        return f"{self.passed} passed and {self.failed} failed {TRIES} times: 5 % or 1 apart"

    def tell(self, *, good: bool) -> None:
        """The result at `level`, which must not be None."""
        level = self.level
        assert level is not None  # noqa: S101 - the caller asks only while there is a level
        if good:
            self.passed, self.tries = level, 0
        elif self.tries + 1 < TRIES:
            self.tries += 1
        else:
            self.failed, self.tries = level, 0
