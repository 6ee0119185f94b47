"""Tells on a stream how far a measurement is: a bar on a terminal, a line a cell elsewhere."""

import time
from typing import TextIO

from app.bench.load import Load
from app.bench.outcome import OK, Outcome

WIDTH = 24
EVERY = 0.1
"""Seconds between two drawings of the bar: drawing costs, and the client is to be cheap."""


class Progress:
    """Where the measurement is. `begin` a cell, `step` with each outcome, `end` it with a line.

    Args:
        out: where it is told.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._bar = out.isatty()
        self._label = ""
        self._load: Load | None = None
        self._done = self._errors = 0
        self._began = self._drawn = 0.0

    def begin(self, label: str, load: Load) -> None:
        """A cell begins."""
        self._label, self._load = label, load
        self._done = self._errors = 0
        self._began = time.monotonic()
        self._drawn = 0.0

    def step(self, outcome: Outcome) -> None:
        """A request is over."""
        self._done += 1
        self._errors += outcome.kind != OK
        now = time.monotonic()
        if self._bar and now - self._drawn >= EVERY:
            self._drawn = now
            self._out.write(f"\r\x1b[2K{self._line(now)}")
            self._out.flush()

    def end(self, line: str) -> None:
        """The cell is over; `line` is what it came to."""
        self._out.write(f"\r\x1b[2K{line}\n" if self._bar else f"{line}\n")
        self._out.flush()

    def _line(self, now: float) -> str:
        share = self._share(now - self._began)
        filled = round(share * WIDTH)
        errors = f", {self._errors} errors" if self._errors else ""
        return f"{self._label} [{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} {self._done} requests{errors}"

    def _share(self, seconds: float) -> float:
        if self._load is None:
            return 0.0
        by_number = self._done / self._load.requests if self._load.requests else 0.0
        by_time = seconds / self._load.duration if self._load.duration else 0.0
        return min(1.0, max(by_number, by_time))
