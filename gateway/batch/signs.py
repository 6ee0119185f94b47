"""How the interactive lane does, as the pacing of batches sees it. An observer that is there from the start."""

from collections import deque
from collections.abc import Callable

from gateway.batch.pacing import Sample, Signs
from gateway.gateway import Gateway
from gateway.telemetry import RequestEnded, TelemetryEvent

KEPT = 256
"""Streams that are remembered from one look to the next; the latest ones."""


class SignWatch:
    """Watches one gateway.

    Args:
        gateway: whose lanes are looked at.
        interactive: the lane that must not suffer.
        batch: the lane that the lines run in.
        clock: monotonic seconds.
    """

    def __init__(self, gateway: Gateway, interactive: str, batch: str, clock: Callable[[], float]) -> None:
        self._gateway = gateway
        self._interactive = interactive
        self._batch = batch
        self._clock = clock
        self._ended: deque[Sample] = deque(maxlen=KEPT)

    def __call__(self, event: TelemetryEvent) -> None:
        """Takes one event; all but the end of an interactive stream are of no interest here."""
        if isinstance(event, RequestEnded) and event.lane == self._interactive and event.ttft is not None:
            self._ended.append(Sample(self._clock() - event.duration, event.ttft))

    def look(self) -> Signs:
        """What there is to see since the last look."""
        ended = tuple(self._ended)
        self._ended.clear()
        lanes = self._gateway.lanes
        interactive = lanes[self._interactive].gate.statistics().lanes[self._interactive]
        waits = [
            passage.elapsed
            for passage in self._gateway.live
            if passage.lane == self._interactive and passage.call.stream and not passage.engine_wait
        ]
        return Signs(
            running=interactive.running,
            waiting=interactive.waiting,
            ended=ended,
            longest_wait=max(waits, default=0.0),
            crowded=lanes[self._batch].gate.statistics().lanes[self._batch].waiting > 0,
        )
