"""When it is asked.

Closed loop: a number of users, each of whom asks again when the answer is complete; the server sets the pace.
Open loop: requests arrive as in a Poisson process, whatever the server does, as those of people who know nothing of
each other.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

LEAST_REQUESTS = 32
MOST_WARMUP = 32


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one cell: `concurrency` users or `rate` requests a second, one of the two.

    Args:
        concurrency: users of a closed loop.
        rate: mean arrivals a second of an open loop.
        requests: how many are measured; None: as many as the duration allows.
        duration: seconds after which no request begins; None: no limit. Those that run are waited for.
        warmup: requests before the measured ones, at the same concurrency (or the rate's whole number).

    Raises:
        ValueError: it is neither or both, a number is not above zero, or it would never end.
    """

    concurrency: int | None = None
    rate: float | None = None
    requests: int | None = None
    duration: float | None = None
    warmup: int = 0

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("a load is a concurrency or a rate")
        if any(n is not None and n <= 0 for n in (self.concurrency, self.rate, self.requests, self.duration)):
            raise ValueError("concurrency, rate, requests and duration must be above zero")
        if self.warmup < 0:
            raise ValueError("the number of warm-up requests must not be negative")
        if self.requests is None and self.duration is None:
            raise ValueError("a load needs a number of requests or a duration")

    @property
    def label(self) -> str:
        """What the cell is called: "32 users" or "4/s"."""
        if self.rate is not None:
            return f"{self.rate:g}/s"
        return f"{self.concurrency} user{'s' if self.concurrency != 1 else ''}"

    @property
    def users(self) -> int:
        """How many ask at once while it is warmed up."""
        return self.concurrency or max(1, round(self.rate or 1))

    def at(self, concurrency: int) -> "Load":
        """This load with another concurrency, and with as many requests and warm-ups as that needs."""
        return load(
            concurrency=concurrency,
            requests=self.requests and max(self.requests, 4 * concurrency),
            duration=self.duration,
            warmup=self.warmup and max(self.warmup, min(MOST_WARMUP, concurrency)),
        )


def load(
    *,
    concurrency: int | None = None,
    rate: float | None = None,
    requests: int | None = None,
    duration: float | None = None,
    warmup: int | None = None,
) -> Load:
    """A load; what is left open is chosen.

    That is four requests a user or 10 s of arrivals, at least 32; and a warm-up for each user, at most 32.

    Raises:
        ValueError: as `Load`.
    """
    if requests is None and duration is None:
        requests = max(LEAST_REQUESTS, 4 * (concurrency or 0), round(10 * (rate or 0)))
    if warmup is None:
        warmup = min(MOST_WARMUP, concurrency or 4)
    return Load(concurrency, rate, requests, duration, warmup)


def arrivals(rate: float, seed: str) -> Iterator[float]:
    """Seconds after the start at which requests arrive, without end."""
    chance = random.Random(seed)
    at = 0.0
    while True:
        yield at
        at += chance.expovariate(rate)
