"""Which charts a result has."""

from collections.abc import Sequence
from typing import cast

from app.bench.report.svg import Series, chart, ratios
from app.bench.result import Cell, Comparison, Run, Spread


def charts(result: Run | Comparison) -> dict[str, str]:
    """Name of a file, without its ending -> SVG."""
    if result["kind"] == "compare":
        return _comparison(cast("Comparison", result))
    cells = sorted(cast("Run", result)["cells"], key=_load)
    drawn = {
        "ttft": chart("TTFT by load", _unit(cells), "ms", _percentiles(cells), log_x=True),
        "throughput": chart("Throughput by load", _unit(cells), "tokens/s", [_tokens("tokens/s", cells)], log_x=True),
    }
    return drawn | _distributions([(cell["load"], cell) for cell in cells])


def together(runs: Sequence[tuple[str, Run]]) -> dict[str, str]:
    """Charts with a line a run, each as (name, result)."""
    lines = [(name, sorted(run["cells"], key=_load)) for name, run in runs]
    unit = _unit([cell for _, cells in lines for cell in cells])
    ttft = [Series(name, _points(cells, "p95")) for name, cells in lines]
    return {
        "together-ttft": chart("TTFT P95 by load", unit, "ms", ttft, log_x=True),
        "together-throughput": chart(
            "Throughput by load", unit, "tokens/s", [_tokens(*line) for line in lines], log_x=True
        ),
    }


def _comparison(comparison: Comparison) -> dict[str, str]:
    rows = [
        (row["name"].removesuffix(", ms"), ratio["median"], ratio["low"], ratio["high"])
        for row in comparison["rows"]
        if (ratio := row["ratio"]) is not None
    ]
    seen: dict[str, int] = {}
    cells = []
    for side, cell in comparison["cells"]:
        seen[side] = seen.get(side, 0) + 1
        cells.append((f"{side}{seen[side]}", cell))
    return {"ratios": ratios("B / A, median and 95 % interval", rows)} | _distributions(cells[:8])


def _distributions(cells: Sequence[tuple[str, Cell]]) -> dict[str, str]:
    ttft = [Series(name, _curve(cell["ttft_ms"])) for name, cell in cells]
    itl = [
        Series(name, _curve(cell["itl_ms"])[:100]) for name, cell in cells
    ]  # the greatest of all would flatten the rest
    return {
        "ttft-distribution": chart("TTFT, share of requests", "ms", "%", ttft, log_x=True),
        "itl-distribution": chart("ITL, share of gaps", "ms", "%", itl),
    }


def _curve(spread: Spread | None) -> tuple[tuple[float, float], ...]:
    return () if spread is None else tuple((value, float(percent)) for percent, value in enumerate(spread["curve"]))


def _percentiles(cells: Sequence[Cell]) -> list[Series]:
    return [Series(name.upper(), _points(cells, name)) for name in ("p50", "p95", "p99")]


def _points(cells: Sequence[Cell], name: str) -> tuple[tuple[float, float], ...]:
    told = [(_load(cell), cell["ttft_ms"]) for cell in cells]
    return tuple((load, {"p50": s["p50"], "p95": s["p95"], "p99": s["p99"]}[name]) for load, s in told if s is not None)


def _tokens(name: str, cells: Sequence[Cell]) -> Series:
    return Series(name, tuple((_load(cell), cell["tokens_per_s"]) for cell in cells))


def _load(cell: Cell) -> float:
    return float(cell["concurrency"] or cell["rate"] or 0)


def _unit(cells: Sequence[Cell]) -> str:
    return "requests/s offered" if any(cell["rate"] is not None for cell in cells) else "users"
