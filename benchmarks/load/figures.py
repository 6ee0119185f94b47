"""Figures of a load, and of several rounds of it. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

from app.bench.quantiles import median, quantile
from benchmarks.load.answers import Seen
from benchmarks.load.cells import Cell


@dataclass(frozen=True, slots=True)
class Figures:
    """What one load gave. None: there is no such figure. A unit is a token, or a request that is not streamed.

    Attributes:
        cpu: of the proxy's whole process tree, microseconds a unit.
        rate: units a second.
        wait_p50, wait_p99: milliseconds to the first token, or to the end of a whole answer.
        age_p50, age_p99: milliseconds from the engine's sending of a token to the client.
        tail_p99: milliseconds from the engine's sending of the last token to the end of the stream.
        events, size: events and body bytes a token, framing included.
        memory: of the process tree, MiB.
        busy: CPU of engines and client, in cores; near what they have, they are what is measured.
        others: CPU of everything else on the machine, in cores; what is more than a little makes all of this doubtful.
        wrong: answers that were not what was asked for; nothing else counts them.
        complaint: what was wrong with one of them.
    """

    cpu: float | None
    rate: float
    wait_p50: float | None
    wait_p99: float | None
    age_p50: float | None
    age_p99: float | None
    tail_p99: float | None
    events: float | None
    size: float | None
    memory: float | None
    busy: float
    others: float
    wrong: int
    complaint: str

    def as_dict(self) -> dict[str, float | str | None]:
        """For JSON, four digits after the point."""
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


def figures(
    seen: Sequence[Seen],
    cell: Cell,
    seconds: float,
    *,
    cpu: float | None,
    busy: float,
    others: float,
    memory: int | None,
) -> Figures:
    """The figures of some answers, which took so many seconds; `cpu` in seconds, `memory` in bytes."""
    right = [each for each in seen if each.wrong is None]
    complaints = [each.wrong for each in seen if each.wrong is not None]
    tokens = sum(each.tokens for each in right)
    units = tokens if cell.stream else len(right)
    waits = sorted(each.wait for each in right)
    ages = sorted(age for each in right for age in each.ages)
    return Figures(
        cpu=cpu / units * 1e6 if cpu is not None and units else None,
        rate=units / seconds,
        wait_p50=_at(waits, 0.5),
        wait_p99=_at(waits, 0.99),
        age_p50=_at(ages, 0.5),
        age_p99=_at(ages, 0.99),
        tail_p99=_at(sorted(each.tail for each in right if each.tail is not None), 0.99),
        events=sum(each.events for each in right) / tokens if cell.stream and tokens else None,
        size=sum(each.size for each in right) / tokens if tokens else None,
        memory=memory / 2**20 if memory is not None else None,
        busy=busy,
        others=max(others, 0.0),
        wrong=len(complaints),
        complaint=complaints[0] if complaints else "",
    )


def middle(rounds: Iterable[Figures]) -> Figures:
    """The median of each figure; wrong answers are added up."""
    rounds = list(rounds)
    medians: dict[str, float | None] = {}
    for name in (each.name for each in fields(Figures) if each.name not in ("wrong", "complaint")):
        values = [value for each in rounds if (value := getattr(each, name)) is not None]
        medians[name] = median(values) if values else None
    complaint = next((each.complaint for each in rounds if each.complaint), "")
    return Figures(**medians, wrong=sum(each.wrong for each in rounds), complaint=complaint)  # type: ignore[arg-type]


def ratio(value: float | None, base: float | None) -> float | None:
    """How many times the base; None where one is missing."""
    return value / base if value is not None and base and math.isfinite(base) else None


def _at(ordered: Sequence[float], share: float) -> float | None:
    return quantile(ordered, share) if ordered else None
