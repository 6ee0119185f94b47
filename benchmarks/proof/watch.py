"""How far a batch is, looked at all the time while it runs, whichever gateway answers."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.proof.offline import OVER, Desk, Object
from benchmarks.proof.process import metric

LOOK_S = 0.25
EACH = 4
"""Looks from one question for the pace to the next; metrics cost the gateway more than a batch does."""


class Unmet(OSError):
    """What was waited for did not come in time."""


@dataclass(frozen=True, slots=True)
class Look:
    """At a moment of `time.monotonic`: lines that have a result, and lines that may run at once (None: not asked)."""

    at: float
    done: int
    pace: float | None = None


class Watch:
    """What `watching` sees.

    Attributes:
        url: of the gateway that is asked; set another one when that has gone.
        looks: so far, in order.
        batch: the Batch object of the last look; empty before the first.
    """

    def __init__(self, url: str, batch_id: str) -> None:
        self.url = url
        self.looks: list[Look] = []
        self.batch: Object = {}
        self._id = batch_id

    @property
    def done(self) -> int:
        """Lines that have a result."""
        return self.looks[-1].done if self.looks else 0

    @property
    def over(self) -> bool:
        """Whether the batch has ended in some way."""
        return self.batch.get("status") in OVER

    def until(self, is_so: Callable[[], bool], seconds: float, what: str) -> None:
        """Waits, and ends at once if the batch is over; raises Unmet."""
        end = time.monotonic() + seconds
        while not (is_so() or self.over):
            if time.monotonic() > end:
                raise Unmet(f"not {what} after {seconds:.0f} s; {self.done} lines are done: {self.batch}")
            time.sleep(0.05)

    def look(self, *, with_pace: bool) -> None:
        """Asks once; a gateway that does not answer is nothing to see."""
        url = self.url
        try:
            self.batch = Desk(url).batch(self._id)
        except OSError:
            return
        counts = self.batch["request_counts"]
        pace = metric(url, "tokenlane_batch_concurrency") if with_pace else None
        self.looks.append(Look(time.monotonic(), counts["completed"] + counts["failed"], pace))


@contextmanager
def watching(url: str, batch_id: str) -> Iterator[Watch]:
    """Looks every quarter of a second, in a thread, until the batch is over or the block ends."""
    watch, ended = Watch(url, batch_id), threading.Event()

    def looking() -> None:
        for number in itertools.count():
            watch.look(with_pace=number % EACH == 0)
            if watch.over or ended.wait(LOOK_S):
                return

    thread = threading.Thread(target=looking, name="watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join(60)


def progress(looks: Sequence[Look], begin: float, end: float) -> dict[str, Any]:
    """What happened between two moments.

    Returns:
        `lines`, `seconds`, `lines_per_s`. `longest_rest_s`: the longest time without one more line, from the first
        line on and up to the end, as well as the looks tell. `pace_p50`, `pace_most`: lines that were allowed at once.
    """
    within = [look for look in looks if begin <= look.at <= end]
    paces = [look.pace for look in within if look.pace is not None]
    lines = within[-1].done - within[0].done if within else 0
    return {
        "lines": lines,
        "seconds": end - begin,
        "lines_per_s": lines / (end - begin),
        "longest_rest_s": longest_rest(within),
        "pace_p50": median(paces) if paces else None,
        "pace_most": max(paces, default=None),
    }


def longest_rest(looks: Sequence[Look]) -> float | None:
    """Seconds; None where not one line was done."""
    moved = [later.at for sooner, later in itertools.pairwise(looks) if later.done > sooner.done]
    if not moved:
        return None
    return max(later - sooner for sooner, later in itertools.pairwise([*moved, looks[-1].at]))
