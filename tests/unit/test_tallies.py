"""Counts as Prometheus is shown them."""

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.registry import Collector

from app.tallies import TallyCounter, TallyHistogram


def shown(collector: Collector) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(collector)
    lines = [line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]
    return {name: float(value) for name, value in lines if "_created" not in name}


def test_a_counter_adds_up_by_labels() -> None:
    counter = TallyCounter("a", "A.", ("lane", "kind"))
    counter.add(("x", "y"))
    counter.add(("x", "y"), 2)
    counter.add(("x", "z"))
    assert shown(counter) == {'a_total{kind="y",lane="x"}': 3, 'a_total{kind="z",lane="x"}': 1}


def test_a_histogram_of_single_values_shows_what_the_client_librarys_own_does() -> None:
    bounds = (0.1, 1, 2.5)
    own, reference = TallyHistogram("a", "A.", bounds), Histogram("a", "A.", ("lane",), buckets=bounds, registry=None)
    for value in (0.0, 0.1, 0.11, 1.0, 2.5, 2.6, 99.0):
        own.observe("x", value)
        reference.labels("x").observe(value)
    assert shown(own) == shown(reference)


def test_a_histogram_takes_single_values_and_whole_tallies() -> None:
    histogram = TallyHistogram("a", "A.", (1, 2))
    histogram.observe("x", 1.5)
    tally = [1, 0, 2]
    histogram.add("x", tally, 10)
    histogram.add("y", tally, 10)
    histogram.observe("y", 0.5)
    seen = shown(histogram)
    assert [seen[f'a_bucket{{lane="x",le="{bound}"}}'] for bound in ("1.0", "2.0", "+Inf")] == [1, 2, 4]
    assert [seen[f'a_bucket{{lane="y",le="{bound}"}}'] for bound in ("1.0", "2.0", "+Inf")] == [2, 2, 4]
    assert seen['a_sum{lane="x"}'] == 11.5
    assert tally == [1, 0, 2], "the stream's own counts stay as they are"
