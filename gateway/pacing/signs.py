"""How the interactive lane does, as the pacing sees it. An observer that is there from the start."""

from collections import deque
from collections.abc import Callable

from gateway.gateway import Gateway, Passage
from gateway.pacing.pace import Signs
from gateway.pacing.streams import Sample
from gateway.pacing.wholes import LEAST_TOKENS, Answer
from gateway.telemetry import Outcome, RequestEnded, TelemetryEvent

KEPT = 256
"""Requests that are remembered from one look to the next; the latest ones."""


class SignWatch:
    """Watches one gateway.

    A stream's TTFT is taken at the look after its first token, not at its end: a minute later it would say nothing of
    the lines that run now. One that begins and ends between two looks is taken at its end. A whole answer is taken at
    its end too, if the engine states enough tokens.

    Args:
        gateway: whose lanes are looked at.
        interactive: the lane that must not suffer.
        batch: the lane that the lines run in, if its queue tells something: where the pace holds for the whole lane
            its queue is what the pace makes.
        clock: monotonic seconds.
    """

    def __init__(self, gateway: Gateway, interactive: str, batch: str | None, clock: Callable[[], float]) -> None:
        self._gateway = gateway
        self._interactive = interactive
        self._batch = batch
        self._clock = clock
        self._started: deque[Sample] = deque(maxlen=KEPT)
        self._answered: deque[Answer] = deque(maxlen=KEPT)
        self._taken: set[Passage] = set()

    def __call__(self, event: TelemetryEvent) -> None:
        """Takes one event; all but the end of an interactive request are of no interest here."""
        if not isinstance(event, RequestEnded) or event.lane != self._interactive:
            return
        if not event.stream:
            self._take_whole(event)
        elif event.ttft is not None and not any(passage.report is event for passage in self._taken):
            self._started.append(Sample(self._clock() - event.duration, event.ttft))

    def _take_whole(self, event: RequestEnded) -> None:
        tokens = event.stats.completion_tokens if event.stats is not None else None
        if event.outcome is Outcome.OK and tokens is not None and tokens >= LEAST_TOKENS:
            per_token = (event.duration - event.queued) / tokens
            self._answered.append(Answer(self._clock() - event.duration, per_token))

    def look(self) -> Signs:
        """What there is to see since the last look."""
        lanes = self._gateway.lanes
        interactive = lanes[self._interactive].gate.statistics().lanes[self._interactive]
        live = {p for p in self._gateway.live if p.lane == self._interactive and p.call.stream}
        answered = {passage for passage in live if passage.engine_wait}
        for passage in answered - self._taken:
            came = self._clock() - passage.elapsed
            self._started.append(Sample(came, passage.queued + passage.engine_wait))
        self._taken = answered
        started = sorted(self._started, key=lambda sample: sample.came)
        self._started.clear()
        answered_whole = tuple(self._answered)
        self._answered.clear()
        return Signs(
            running=interactive.running,
            waiting=interactive.waiting,
            started=started,
            longest_wait=max((passage.elapsed for passage in live - answered), default=0.0),
            answered=answered_whole,
            crowded=self._batch is not None and lanes[self._batch].gate.statistics().lanes[self._batch].waiting > 0,
        )
