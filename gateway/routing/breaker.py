"""Whether an engine may be asked. Pure: time is an argument, seconds of one monotonic clock.

    state      what happens                                  -> state
    unproven   a real generation succeeds                    -> closed
    unproven   a real generation fails                       -> unproven, the next probe after twice the time
    closed     success                                       -> closed, the count of failures starts anew
    closed     failure, the third (`threshold`) in a row     -> open, the first probe a second later
    closed     unreachable, and no success in the last 2 s   -> open, likewise
    closed     unreachable else                              -> as a failure
    open       a real generation succeeds                    -> closed
    open       a real generation fails                       -> open, the next probe after twice the time, at most 30 s
    open       success or failure of an earlier request      -> open
    any        neutral                                       -> the same

- Traffic comes back only after a real generation: an engine that hangs still says 200 on /health, and so does one
  that is going down. Neither a good /health nor a late answer to an earlier request closes it.
- A refused connection is proof enough that nobody listens, unless the engine has answered within two seconds: then it
  may be a burst that its backlog did not take, and counts as one failure.
- One 5xx does not open it: gpt-oss raises one for a malformed answer now and then.
- What belongs to an earlier life of the engine (`epoch`) is not held against the one that was proven since.
"""

from enum import StrEnum
from typing import Final

from gateway import errors as e

RECENT: Final = 2.0
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0


class EngineOutcome(StrEnum):
    """What one request, or one probe, says of its engine."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNREACHABLE = "unreachable"  # a failure that needs no second one
    NEUTRAL = "neutral"


class BreakerState(StrEnum):
    """Whether an engine may be asked: only while `CLOSED`."""

    UNPROVEN = "unproven"
    CLOSED = "closed"
    OPEN = "open"


class Breaker:
    """The breaker of one engine.

    Args:
        threshold: failures in a row that open it.
        unproven: whether a real generation has to succeed before the first request.

    Attributes:
        state: of now.
        reason: why it is in that state, in a few words.
        epoch: how often it has opened.
    """

    def __init__(self, *, threshold: int = 3, unproven: bool = False) -> None:
        self._threshold = threshold
        self._failures = 0
        self._succeeded_at: float | None = None
        self._pause = FIRST_PAUSE
        self._probe_at = 0.0
        self.state = BreakerState.UNPROVEN if unproven else BreakerState.CLOSED
        self.reason = "not probed yet" if unproven else "trusted from the start"
        self.epoch = 0

    def __repr__(self) -> str:
        return f"<Breaker {self.state}: {self.reason}>"

    @property
    def closed(self) -> bool:
        """Whether the engine may be asked."""
        return self.state is BreakerState.CLOSED

    def record(self, outcome: EngineOutcome, now: float, *, epoch: int | None = None) -> None:
        """Takes the outcome of a request or of a /health that failed.

        Args:
            outcome: see `outcome_of`.
            now: when it became known.
            epoch: the breaker's, as it was when the request began; None: the present one.
        """
        of_another_life = epoch is not None and epoch != self.epoch
        if not self.closed or of_another_life or outcome is EngineOutcome.NEUTRAL:
            return
        if outcome is EngineOutcome.SUCCESS:
            self._failures = 0
            self._succeeded_at = now
            return
        self._failures += 1
        if outcome is EngineOutcome.UNREACHABLE and not self._succeeded_lately(now):
            self._open("unreachable", now)
        elif self._failures >= self._threshold:
            self._open(f"{self._failures} failures in a row", now)

    def probe_at(self, now: float) -> float | None:
        """When a real generation should be tried next, `now` at the earliest; None while closed."""
        return None if self.closed else max(now, self._probe_at)

    def probe_succeeded(self, now: float) -> None:
        """A real generation succeeded: the engine may be asked."""
        if self.closed:
            return
        self.state = BreakerState.CLOSED
        self.reason = "a real generation succeeded"
        self._failures = 0
        self._succeeded_at = now
        self._pause = FIRST_PAUSE

    def probe_failed(self, now: float) -> None:
        """A real generation failed: the next one after twice the time."""
        if self.closed:
            return
        self._probe_at = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _succeeded_lately(self, now: float) -> bool:
        return self._succeeded_at is not None and now - self._succeeded_at <= RECENT

    def _open(self, reason: str, now: float) -> None:
        self.state = BreakerState.OPEN
        self.reason = reason
        self.epoch += 1
        self.probe_failed(now)


def outcome_of(error: BaseException | None) -> EngineOutcome:
    """What the end of a request says of its engine. None: the answer was whole.

    Neutral are a client's mistakes (4xx), an engine that is busy (429, 503), one that does not know the feature
    (501), a kept-alive connection that was closed in between, and whatever is not about an engine at all.
    """
    match error:
        case None:
            return EngineOutcome.SUCCESS
        case e.EngineUnreachable():
            return EngineOutcome.UNREACHABLE
        case e.EngineAnswered(status=status):
            return EngineOutcome.NEUTRAL if status < 500 or status in {501, 503} else EngineOutcome.FAILURE
        case e.EngineStale():
            return EngineOutcome.NEUTRAL
        case e.EngineError():
            return EngineOutcome.FAILURE
        case _:
            return EngineOutcome.NEUTRAL
