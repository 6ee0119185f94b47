"""How many lines run at once. Pure: signs of the interactive lane in, a number out.

A line is a request of the batch lane: one of a batch, or one that a client sent, where the whole lane is paced.

Additive increase, multiplicative decrease, as TCP does it (RFC 5681): while the interactive lane is well one line more
runs each `step` seconds; slower where few requests come that could tell, slower near the number that harmed last, and
not while one of the latest streams waited too long. When the lane suffers the number is halved, at most once each
`hold` seconds. Below one it is a share of the time, see `pauses`, down to an eighth: a trickle always goes on.

Once the lane is empty, see `presence`, the number grows each `quiet_step` seconds. What has grown then is given back
when somebody comes. And while a stream waits for its first token no line begins, for two usual TTFT at most.

The interactive lane suffers when a request waits in its queue, when streams do, see `streams`, or when whole answers
take too long a token, see `wholes`. Both are judged by requests that came while no line ran, of the last `MEMORY_S`
seconds. While there are too few of them and interactive requests come, lines run half of the time, for `LEARN_S`
seconds at most: where there is nothing to learn (embeddings, answers of few tokens) the queue alone decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.pacing.pauses import Pauses
from gateway.pacing.presence import Presence
from gateway.pacing.streams import Bounds, Sample, Streams
from gateway.pacing.wholes import Answer, Wholes

TRICKLE = 1
LEAST, LEARNING = 0.125, 0.5
"""Shares of the time: what always goes on, and what runs at first, until requests have told that more does no harm.
Growth goes by `LEAST` up to one."""

LEARN_S = 30.0
MEMORY_S = 1800.0

WARY_SHARE, WARY_STEPS, WARY_S = 0.75, 4, 120.0
"""Growth is slower by so many times above this share of the number that harmed, for so many seconds; and it takes as
many times more requests that tell."""

TELLING, UNTOLD_STEPS = 3, 6
"""Growth is slower by so many times while fewer requests have come since the last change."""

HELD_BACK = 2
"""Usual TTFT for which a line is held back at most while a stream waits for its first token."""


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
        bounds: of what streams bear.

    Attributes:
        paused: there is room for a line, which does not begin for a moment.
    """

    def __init__(
        self,
        ceiling: int,
        *,
        step: float = 1.0,
        quiet_step: float = 0.25,
        hold: float = 3.0,
        bounds: Bounds = Bounds(),  # noqa: B008 - a frozen value
    ) -> None:
        self.ceiling = max(TRICKLE, ceiling)
        self.paused = False
        self._step = step
        self._quiet_step = quiet_step
        self._hold = hold
        self._level: float = TRICKLE
        self._proven: float = LEARNING
        self._harmful: float = self.ceiling
        self._streams = Streams(bounds)
        self._wholes = Wholes()
        self._presence = Presence()
        self._pauses = Pauses()
        self._decreased_at = float("-inf")
        self._grown_at = float("-inf")
        self._told = 0
        self._was_quiet = True
        self._learning_since: float | None = None

    @property
    def limit(self) -> int:
        """Lines that may run at once, one at least."""
        return max(TRICKLE, int(self._level))

    @property
    def baseline(self) -> float | None:
        """The TTFT of an interactive request that batch work does not disturb, None while it is not known."""
        return self._streams.baseline

    def look(self, now: float, signs: Signs, busy: int) -> int:
        """Takes the signs of the last moments; returns how many lines may run now: the limit, or as many as do.

        Args:
            now: monotonic seconds.
            signs: of the interactive lane.
            busy: lines that run; a limit that is not reached does not grow.
        """
        self._remember(now, signs)
        self._pauses.note(now, busy)
        quiet = self._presence.quiet(now)
        if self._was_quiet and not quiet:
            self._level = min(self._level, self._proven)
        self._was_quiet = quiet
        self._adjust(now, signs, busy, quiet=quiet)
        if not quiet:
            self._proven = self._level
        patience = HELD_BACK * (self.baseline or 0.0)
        held = self._pauses.holding(now, awaited=signs.longest_wait > 0, patience=patience)
        self.paused = busy < self.limit and (held or self._pauses.resting(now, self._level))
        return busy if self.paused else self.limit

    def began(self, now: float) -> None:
        """A line has begun, or several."""
        self._pauses.began(now)

    def _remember(self, now: float, signs: Signs) -> None:
        came = [sample.came for sample in signs.started] + [answer.came for answer in signs.answered]
        self._presence.take(now, came, busy=bool(signs.running or signs.waiting))
        self._told += sum(each >= max(self._decreased_at, self._grown_at) for each in came)
        idle_since = self._pauses.idle_since
        self._streams.take(signs.started, idle_since=idle_since, judged_since=self._decreased_at)
        self._wholes.take(signs.answered, idle_since=idle_since, judged_since=self._decreased_at)
        self._streams.forget(now - MEMORY_S, now - WARY_S)
        self._wholes.forget(now - MEMORY_S)

    def _adjust(self, now: float, signs: Signs, busy: int, *, quiet: bool) -> None:
        if signs.waiting or self._wholes.suffer() or self._streams.suffer(signs.longest_wait):
            self._shrink(now)
        elif self._must_learn(now, signs):
            self._level = min(self._level, LEARNING)
        elif quiet or not self._streams.doubtful:
            self._grow(now, signs, busy, quiet=quiet)

    def _shrink(self, now: float) -> None:
        if now - self._decreased_at < self._hold:
            return
        self._harmful = self._level
        self._level = max(LEAST, self._level / 2)
        self._decreased_at = now
        self._told = 0

    def _grow(self, now: float, signs: Signs, busy: int, *, quiet: bool) -> None:
        if signs.crowded or (self._level >= TRICKLE and busy < self.limit):
            return
        more = self._level + (TRICKLE if quiet or self._level >= TRICKLE else LEAST)
        if now >= max(self._decreased_at + self._hold, self._grown_at + self._step_to(more, now, quiet=quiet)):
            self._level = min(self.ceiling, more)
            self._grown_at = now
            self._told = 0

    def _step_to(self, level: float, now: float, *, quiet: bool) -> float:
        if quiet:
            return self._quiet_step
        is_near_harm = level > WARY_SHARE * self._harmful and now - self._decreased_at < WARY_S
        wary = WARY_STEPS if is_near_harm else 1
        is_untold = self._told < TELLING * wary and not self._is_ignorant
        return self._step * wary * (UNTOLD_STEPS if is_untold else 1)

    @property
    def _is_ignorant(self) -> bool:
        """Whether nothing is known by which the lane could be judged, but its queue."""
        return self.baseline is None and self._wholes.usual is None

    def _must_learn(self, now: float, signs: Signs) -> bool:
        if not self._is_ignorant:
            self._learning_since = None
            return False
        if not signs.running and not signs.started:
            return False
        if self._learning_since is None:
            self._learning_since = now
        return now - self._learning_since < LEARN_S
