"""Whether whole answers suffer from the lines of batches. Pure.

An answer that is not streamed has no TTFT. What it has is a time a token, from its slot to its end: prompts and answers
of any length can be compared by it, if the answer has `LEAST_TOKENS` or more. It is judged against its own median while
no line ran. The lane suffers when the median of the latest answers is above `TOLERANCE` times that, by
more than chance explains.

The tolerance is wide: a larger batch on the engine makes every token somewhat slower, which is what sharing an engine
costs, and streams are not spared it either. Such answers tell late, when they have ended; the queue tells at once.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

TOLERANCE = 1.5
LEAST_TOKENS = 8
"""Tokens below which the prompt makes up most of the time."""

USUAL, JUDGED_LEAST, JUDGED = 8, 3, 5
"""Answers without which nothing is usual; without which nothing is judged; of how many latest the median is."""

KEPT = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer: when its request came, on the caller's clock, and its seconds a token, without the queue."""

    came: float
    per_token: float


class Wholes:
    """The whole answers of the interactive lane, the latest ones."""

    def __init__(self) -> None:
        self._idle: deque[Answer] = deque(maxlen=KEPT)
        self._judged: deque[Answer] = deque(maxlen=JUDGED)

    @property
    def usual(self) -> float | None:
        """Seconds a token while no line runs, None while that is not known."""
        return median(each.per_token for each in self._idle) if len(self._idle) >= USUAL else None

    def take(self, answers: Sequence[Answer], *, idle_since: float | None, judged_since: float) -> None:
        """Takes answers that have ended.

        Args:
            answers: in any order.
            idle_since: since when no line runs; None while one does.
            judged_since: what came before says nothing of the lines that run now.
        """
        if idle_since is not None:
            self._idle.extend(answer for answer in answers if answer.came >= idle_since)
        judged = [answer for answer in (*self._judged, *answers) if answer.came >= judged_since]
        self._judged = deque(judged, maxlen=JUDGED)

    def forget(self, before: float) -> None:
        """What came before that is not usual any more."""
        while self._idle and self._idle[0].came < before:
            self._idle.popleft()

    def suffer(self) -> bool:
        """Whether the latest answers took too long."""
        usual = self.usual
        if usual is None or len(self._judged) < JUDGED_LEAST:
            return False
        chance = 2 * error_of_median([each.per_token for each in self._idle], usual, len(self._judged))
        return median(each.per_token for each in self._judged) > usual * TOLERANCE + chance


def error_of_median(values: Sequence[float], middle: float, count: int) -> float:
    """The standard error of a median of `count`: 1.253 sigma / sqrt(n), sigma 1.483 times the median deviation."""
    return 1.253 * 1.483 * median(abs(value - middle) for value in values) / math.sqrt(count)
