"""What Prometheus gets to see of batches: lines and batches that ended, and how things are when it asks.

What is in the database counts for all gateways that share it, what runs for this one alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.batch.census import Figures
from gateway.telemetry import BatchEnded, BatchLines


class BatchCollector(Collector):
    """Counts lines and batches, and shows the figures of the runner.

    Args:
        figures: gives them, None while files and batches are not open.
    """

    def __init__(self, figures: Callable[[], Figures | None]) -> None:
        self._figures = figures
        self._lines: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()

    def count(self, event: BatchLines | BatchEnded) -> None:
        """Counts one event."""
        if isinstance(event, BatchLines):
            self._lines[event.outcome] += event.count
        else:
            self._ended[event.status] += 1

    def collect(self) -> Iterator[Metric]:
        """Yields one family each; those of the figures are empty while there are none."""
        yield _counter(
            "tokenlane_batch_lines", "Lines of batches, by what became of them here.", "outcome", self._lines
        )
        yield _counter("tokenlane_batches_ended", "Batches that ended here, by status.", "status", self._ended)
        figures = self._figures()
        numbers = (
            ("tokenlane_batch_running", "Lines of batches that run here.", "running"),
            (
                "tokenlane_batch_waiting",
                "Lines of batches in progress that have no result and do not run here.",
                "waiting",
            ),
            ("tokenlane_batch_concurrency", "Lines that may run here at once now: the pace.", "pace"),
            ("tokenlane_batch_concurrency_most", "Lines that may run here at once at most.", "ceiling"),
        )
        for name, text, attribute in numbers:
            gauge = GaugeMetricFamily(name, text)
            if figures is not None and (value := getattr(figures, attribute)) is not None:
                gauge.add_metric((), value)
            yield gauge
        by_status = GaugeMetricFamily("tokenlane_batches", "Batches that are not over, by status.", labels=("status",))
        for status, count in (figures.open if figures is not None else {}).items():
            by_status.add_metric((status,), count)
        yield by_status


def _counter(name: str, text: str, label: str, counts: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family
