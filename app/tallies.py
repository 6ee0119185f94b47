"""Counts of requests for Prometheus: numbers in a dict, written out when it asks.

A metric of the client library takes a lock and several calls for each value, and a request has a dozen of them.
Everything here happens on one event loop.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import add

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class TallyCounter(Collector):
    """A counter.

    Args:
        name: of the metric.
        text: its help.
        labels: the names of its labels; they have few values.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._counts: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, values: tuple[str, ...], count: float = 1) -> None:
        """Adds to the series with these values of the labels."""
        self._counts[values] += count

    def collect(self) -> Iterator[Metric]:
        """Yields the family."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class TallyHistogram(Collector):
    """A histogram by lane. It takes single values, and whole tallies: a stream adds its counts once, at its end.

    Args:
        name: of the metric.
        text: its help.
        bounds: upper bounds of the buckets, rising; a tally has one more, for what is above.
    """

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self._sums: defaultdict[str, float] = defaultdict(float)

    def observe(self, lane: str, value: float) -> None:
        """Adds one value."""
        self._counts[lane][bisect_left(self._bounds, value)] += 1
        self._sums[lane] += value

    def add(self, lane: str, counts: Sequence[int], total: float) -> None:
        """Adds one stream's counts a bucket (not cumulative) and the sum of its values."""
        self._counts[lane] = list(map(add, self._counts[lane], counts))
        self._sums[lane] += total

    def collect(self) -> Iterator[Metric]:
        """Yields the family, cumulative as Prometheus wants it."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._text, labels=("lane",))
        for lane, counts in self._counts.items():
            buckets = [(name, float(total)) for name, total in zip(names, accumulate(counts), strict=True)]
            family.add_metric((lane,), buckets, self._sums[lane])
        yield family
