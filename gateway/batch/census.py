"""How many batches and lines there are now, as the runner and the database know it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.batch.jobs import OVER, Status

OPEN = tuple(status for status in Status if status not in OVER)
"""States that a batch leaves."""


@dataclass(frozen=True, slots=True)
class Census:
    """What the database knows: batches that are not over by status, and lines in progress that have no result."""

    batches: Mapping[Status, int] = field(default_factory=dict)
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """What is shown of batches.

    Attributes:
        running: lines that run here.
        pace: lines that may run here at once now.
        ceiling: the same, at most.
        waiting: lines in progress, of all gateways, that have no result and do not run here; None where the database
            cannot be asked.
        open: batches by status; empty where the database cannot be asked.
    """

    running: int
    pace: int
    ceiling: int
    waiting: int | None
    open: Mapping[str, int]


def figures(census: Census | None, *, running: int, pace: int, ceiling: int) -> Figures:
    """The figures, with a zero for each status that no batch has."""
    if census is None:
        return Figures(running, pace, ceiling, None, {})
    counts = {str(status): census.batches.get(status, 0) for status in OPEN}
    return Figures(running, pace, ceiling, max(0, census.lines - running), counts)
