"""How many lines run at once. Pure: signs of the interactive lane in, a number out.

Additive increase, multiplicative decrease, as TCP does it (RFC 5681): while the interactive lane is well one line more
runs each `step` seconds, slower near the number that harmed last, and each `quiet_step` seconds once nobody has been
there for `QUIET_S`; when it suffers the number is halved, at most once each `hold` seconds. It never falls below one: a
trickle always goes on.

The interactive lane suffers when

- a request waits in its queue,
- the median TTFT of the last requests that came since the last decrease is above `tolerance` times the baseline, by
  more than chance explains: two standard errors of such a median, from the spread of the idle requests, or
- two of the last `JUDGED_LATEST` requests had a TTFT above `tail_tolerance` times the idle tail, or
- a stream waits for its first token for longer than `patience` times the idle tail, or
- whole answers take too long a token: see `wholes`.

The baseline is the median TTFT, and the idle tail the 95th percentile, of requests that came while no more than a
trickle ran, of the last `MEMORY_S` seconds. While they are not known and interactive requests come, a trickle runs
until they are, or until it is known how long whole answers take a token, for `LEARN_S` seconds at most: where there is
nothing to learn (embeddings, answers of few tokens) the queue alone decides.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gateway.batch.wholes import Answer, Wholes, error_of_median

TRICKLE = 1
LEARN_S = 30.0
MEMORY_S = 1800.0
BASELINE_SAMPLES = 8
"""Idle requests without which there is no baseline."""

JUDGED_LEAST, JUDGED_MEDIAN, JUDGED_LATEST = 3, 5, 8
"""Requests since the last decrease: without how many they say nothing, of how many latest the median and tail are."""

QUIET_S = 5.0
"""Seconds without an interactive request after which the lane counts as empty; shorter gaps are in any traffic."""

WARY_SHARE, WARY_STEPS, WARY_S = 0.75, 4, 120.0
"""Growth is slower by so many times above this share of the number that harmed, for so many seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One interactive stream: when it came, on the caller's clock, and its TTFT, in seconds."""

    came: float
    ttft: float


@dataclass(frozen=True, slots=True)
class Signs:
    """The interactive lane since the last look.

    `running` and `waiting` count its requests. `started` are the streams that got their first token, `answered` the
    whole answers that ended. `longest_wait` is how long the oldest stream without a token has waited, in seconds.
    `crowded` says that the batch lane has a queue.
    """

    running: int = 0
    waiting: int = 0
    started: Sequence[Sample] = ()
    longest_wait: float = 0.0
    crowded: bool = False
    answered: Sequence[Answer] = ()


class Pacing:
    """The number of lines that may run at once, in `limit`.

    Args:
        ceiling: it never is above.
        step: seconds from one line more to the next.
        quiet_step: the same while the interactive lane is empty.
        hold: seconds from one decrease to the next, and to growth.
        tolerance: how many times the baseline the median TTFT may be.
        tail_tolerance: how many times the idle tail all but one of the latest TTFT have to stay below.
        patience: how many times the idle tail a single stream may wait.
        slack: seconds of TTFT that never count: the noise of a quick engine.
    """

    def __init__(
        self,
        ceiling: int,
        *,
        step: float = 1.0,
        quiet_step: float = 0.25,
        hold: float = 3.0,
        tolerance: float = 1.1,
        tail_tolerance: float = 1.2,
        patience: float = 2.0,
        slack: float = 0.005,
    ) -> None:
        self.ceiling = max(TRICKLE, ceiling)
        self.limit = TRICKLE
        self._step = step
        self._quiet_step = quiet_step
        self._hold = hold
        self._tolerance = tolerance
        self._tail_tolerance = tail_tolerance
        self._patience = patience
        self._slack = slack
        self._idle: deque[Sample] = deque(maxlen=64)
        self._judged: deque[Sample] = deque(maxlen=JUDGED_LATEST)
        self._wholes = Wholes()
        self._trickling_since: float | None = float("-inf")  # nothing ran before
        self._decreased_at = float("-inf")
        self._grown_at = float("-inf")
        self._harmful = self.ceiling
        self._learning_since: float | None = None
        self._seen_at = float("-inf")

    @property
    def baseline(self) -> float | None:
        """The TTFT of an interactive request that batch work does not disturb, None while it is not known."""
        return median(s.ttft for s in self._idle) if len(self._idle) >= BASELINE_SAMPLES else None

    def look(self, now: float, signs: Signs, busy: int) -> int:
        """Takes the signs of the last moments; returns the new limit.

        Args:
            now: monotonic seconds.
            signs: of the interactive lane.
            busy: lines that run; a limit that is not reached does not grow.
        """
        self._remember(now, signs)
        if self._suffers(signs):
            self._shrink(now)
        elif self._must_learn(now, signs):
            self.limit = TRICKLE
        elif busy >= self.limit and not signs.crowded:
            self._grow(now)
        self._note_trickle(now, busy)
        return self.limit

    def _remember(self, now: float, signs: Signs) -> None:
        if signs.running or signs.waiting:
            self._seen_at = now
        for sample in signs.started:
            if self._trickling_since is not None and sample.came >= self._trickling_since:
                self._idle.append(sample)
            if sample.came >= self._decreased_at:
                self._judged.append(sample)
        self._wholes.take(signs.answered, idle_since=self._trickling_since, judged_since=self._decreased_at)
        self._wholes.forget(now - MEMORY_S)
        while self._idle and self._idle[0].came < now - MEMORY_S:
            self._idle.popleft()
        while self._judged and self._judged[0].came < self._decreased_at:
            self._judged.popleft()

    def _suffers(self, signs: Signs) -> bool:
        if signs.waiting or self._wholes.suffer():
            return True
        if (baseline := self.baseline) is None:
            return False
        tail = sorted(s.ttft for s in self._idle)[int(0.95 * len(self._idle))] + self._slack
        if signs.longest_wait > tail * self._patience:
            return True
        latest = [sample.ttft for sample in self._judged]
        if len(latest) < JUDGED_LEAST:
            return False
        if sum(ttft > tail * self._tail_tolerance for ttft in latest) >= 2:
            return True
        middle = latest[-JUDGED_MEDIAN:]
        chance = 2 * error_of_median([s.ttft for s in self._idle], baseline, len(middle))
        return median(middle) > baseline * self._tolerance + self._slack + chance

    def _shrink(self, now: float) -> None:
        if now - self._decreased_at < self._hold:
            return
        self._harmful = self.limit
        self.limit = max(TRICKLE, self.limit // 2)
        self._decreased_at = now

    def _grow(self, now: float) -> None:
        if now >= max(self._decreased_at + self._hold, self._grown_at + self._step_to(self.limit + 1, now)):
            self.limit = min(self.ceiling, self.limit + 1)
            self._grown_at = now

    def _step_to(self, limit: int, now: float) -> float:
        if now - self._seen_at >= QUIET_S:
            return self._quiet_step
        is_near_harm = limit > WARY_SHARE * self._harmful and now - self._decreased_at < WARY_S
        return self._step * (WARY_STEPS if is_near_harm else 1)

    def _must_learn(self, now: float, signs: Signs) -> bool:
        if self.baseline is not None or self._wholes.usual is not None:
            self._learning_since = None
            return False
        if not signs.running and not signs.started:
            return False
        if self._learning_since is None:
            self._learning_since = now
        return now - self._learning_since < LEARN_S

    def _note_trickle(self, now: float, busy: int) -> None:
        if busy > TRICKLE:
            self._trickling_since = None
        elif self._trickling_since is None:
            self._trickling_since = now
