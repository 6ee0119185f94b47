"""A and B from cells measured in turns to ratios."""

from collections.abc import Callable, Sequence

from app.bench.quantiles import median
from app.bench.ratios import ORDER, Estimate, estimate, round_difference, round_ratio
from app.bench.result import Cell, Interval, Row, Spread, rounded

Figure = Callable[[Cell], float | None]


def _of(spread: Spread | None, name: str) -> float | None:
    return None if spread is None else {"p50": spread["p50"], "p95": spread["p95"], "p99": spread["p99"]}[name]


FIGURES: dict[str, Figure] = {
    "TTFT P50, ms": lambda cell: _of(cell["ttft_ms"], "p50"),
    "TTFT P95, ms": lambda cell: _of(cell["ttft_ms"], "p95"),
    "TTFT P99, ms": lambda cell: _of(cell["ttft_ms"], "p99"),
    "ITL P50, ms": lambda cell: _of(cell["itl_ms"], "p50"),
    "ITL P95, ms": lambda cell: _of(cell["itl_ms"], "p95"),
    "TPOT P50, ms": lambda cell: _of(cell["tpot_ms"], "p50"),
    "tokens/s": lambda cell: cell["tokens_per_s"],
    "requests/s": lambda cell: cell["requests_per_s"],
    "tokens an event": lambda cell: cell["tokens_per_event"],
    "share of errors": lambda cell: 1 - cell["ok"] / cell["requests"] if cell["requests"] else None,
}
"""What is compared."""


def sequence(rounds: int) -> list[str]:
    """The sides in the order in which they are measured."""
    return list(ORDER * rounds)


def rows(cells: Sequence[tuple[str, Cell]], seed: int = 0) -> list[Row]:
    """Every figure over the whole rounds in `cells`, which are in the order of `sequence`."""
    size = len(ORDER)
    rounds = [cells[start : start + size] for start in range(0, len(cells) - len(cells) % size, size)]
    return [_row(name, figure, rounds, seed) for name, figure in FIGURES.items()]


def _row(name: str, figure: Figure, rounds: Sequence[Sequence[tuple[str, Cell]]], seed: int) -> Row:
    values = {
        side: [[value for at, cell in one if at == side and (value := figure(cell)) is not None] for one in rounds]
        for side in "AB"
    }
    pairs = list(zip(values["A"], values["B"], strict=True))
    ratios = [ratio for a, b in pairs if (ratio := round_ratio(a, b)) is not None]
    differences = [difference for a, b in pairs if (difference := round_difference(a, b)) is not None]
    return {
        "name": name,
        "a": _middle(values["A"]),
        "b": _middle(values["B"]),
        "ratio": _interval(estimate(ratios, seed)),
        "difference": _interval(estimate(differences, seed)),
    }


def _middle(rounds: Sequence[Sequence[float]]) -> float | None:
    values = [value for one in rounds for value in one]
    return rounded(median(values)) if values else None


def _interval(found: Estimate | None) -> Interval | None:
    if found is None:
        return None
    return {"median": rounded(found.median), "low": rounded(found.low), "high": rounded(found.high), "n": found.n}
