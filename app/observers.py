"""Who is told what happens."""

from typing import TYPE_CHECKING

import structlog

from gateway.telemetry import Observer, TelemetryEvent

if TYPE_CHECKING:
    from collections.abc import Collection

log = structlog.get_logger("tokenlane")


class Observers:
    """One observer that tells several. One that fails costs a line in the log, not the request that it was told of."""

    def __init__(self) -> None:
        self._observers: list[tuple[Observer, Collection[type[TelemetryEvent]]]] = []
        self._told: dict[type[TelemetryEvent], list[Observer]] = {}

    def add(self, observer: Observer, *kinds: type[TelemetryEvent]) -> None:
        """Tells this one too, from now on; of these kinds of event alone, if any are named."""
        self._observers.append((observer, kinds))
        self._told.clear()

    def __call__(self, event: TelemetryEvent) -> None:
        """Tells all whom it concerns."""
        kind = type(event)
        told = self._told.get(kind)
        if told is None:
            told = self._told[kind] = [each for each, kinds in self._observers if not kinds or kind in kinds]
        for observer in told:
            try:
                observer(event)
            except Exception:
                log.exception("an observer failed", observed=type(event).__name__)
