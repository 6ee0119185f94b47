"""Whether streams suffer from the lines of batches, by their TTFT. Pure.

They are judged by those that came while no line ran: the baseline is the median of their TTFT, the idle tail the 95th
percentile. Streams suffer when

- the median TTFT of the last ones that came since the last decrease is above `tolerance` times the baseline, by more
  than chance explains: two standard errors of such a median, from the spread of the idle ones, or
- more of the latest had a TTFT above `tail_tolerance` times the idle tail than `SLOW` has for one of its windows, or
- one waits for its first token for longer than `patience` times the idle tail.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gateway.pacing.wholes import error_of_median

BASELINE_SAMPLES = 8
"""Idle streams without which there is no baseline."""

LEAST, MIDDLE, LATEST = 3, 5, 8
"""Streams since the last decrease: without how many they say nothing, of how many latest the median is taken, and one
slow one raises doubt."""

SLOW = ((2, LATEST), (3, 32), (4, 64))
"""So many slow ones of so many latest are suffering: a fault that is plain at once, and a tail that few show. An idle
engine has one slow one in a hundred, and is suspected in one window of two hundred."""

KEPT = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """One interactive stream: when it came, on the caller's clock, and its TTFT, in seconds."""

    came: float
    ttft: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is not suffering.

    Args:
        tolerance: how many times the baseline the median TTFT may be.
        tail_tolerance: how many times the idle tail all but one of the latest TTFT have to stay below.
        patience: how many times the idle tail a single stream may wait.
        slack: seconds of TTFT that never count: the noise of a quick engine.
    """

    tolerance: float = 1.1
    tail_tolerance: float = 1.2
    patience: float = 2.0
    slack: float = 0.005


class Streams:
    """The streams of the interactive lane, the latest ones."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._idle: deque[Sample] = deque(maxlen=KEPT)
        self._judged: deque[Sample] = deque(maxlen=KEPT)

    @property
    def baseline(self) -> float | None:
        """The TTFT of a stream that batch work does not disturb, None while it is not known."""
        return median(s.ttft for s in self._idle) if len(self._idle) >= BASELINE_SAMPLES else None

    def take(self, started: Sequence[Sample], *, idle_since: float | None, judged_since: float) -> None:
        """Takes streams that got their first token.

        Args:
            started: in the order in which they came.
            idle_since: since when no line runs; None while one does.
            judged_since: what came before says nothing of the lines that run now.
        """
        if idle_since is not None:
            self._idle.extend(sample for sample in started if sample.came >= idle_since)
        judged = [sample for sample in (*self._judged, *started) if sample.came >= judged_since]
        self._judged = deque(judged, maxlen=KEPT)

    def forget(self, before: float, lately: float) -> None:
        """What came before these times says nothing any more: of an idle engine, and of the lines that run now."""
        while self._idle and self._idle[0].came < before:
            self._idle.popleft()
        while self._judged and self._judged[0].came < lately:
            self._judged.popleft()

    @property
    def doubtful(self) -> bool:
        """Whether one of the latest streams waited too long: a reason to leave it at that for a while."""
        return self.baseline is not None and self._slow(LATEST) > 0

    def suffer(self, longest_wait: float) -> bool:
        """Whether the latest streams waited too long, or one does that has waited for so many seconds."""
        if (baseline := self.baseline) is None:
            return False
        bounds, latest = self._bounds, [sample.ttft for sample in self._judged]
        if longest_wait > self._tail * bounds.patience:
            return True
        if len(latest) < LEAST:
            return False
        if any(self._slow(window) >= most for most, window in SLOW):
            return True
        middle = latest[-MIDDLE:]
        chance = 2 * error_of_median([s.ttft for s in self._idle], baseline, len(middle))
        return median(middle) > baseline * bounds.tolerance + bounds.slack + chance

    @property
    def _tail(self) -> float:
        return sorted(s.ttft for s in self._idle)[int(0.95 * len(self._idle))] + self._bounds.slack

    def _slow(self, window: int) -> int:
        """How many of so many latest were slow."""
        most = self._tail * self._bounds.tail_tolerance
        return sum(sample.ttft > most for sample in list(self._judged)[-window:])
