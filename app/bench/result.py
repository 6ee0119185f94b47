"""The format of a result, as it is written to a file and read again. Times are milliseconds unless a name says else."""

import math
from pathlib import Path
from typing import Any, TypedDict, cast

import orjson

FORMAT = 1


class Spread(TypedDict):
    """Samples: their number, mean, percentiles, the greatest, and the percentiles 0 to 100 as a curve."""

    n: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    curve: list[float]


class Health(TypedDict):
    """Whether the client was the bottleneck.

    `cpu_share`: CPU seconds of its process a second. `cpu_us_per_event`: in microseconds. `lag_ms`: how late its event
    loop called it. `late_ms`: how late it sent, in an open loop.
    """

    cpu_share: float
    cpu_us_per_event: float | None
    lag_ms: Spread | None
    late_ms: Spread | None


class Cell(TypedDict):
    """One load. Figures are of requests that ended well; `errors` counts the others by kind, `details` quotes one."""

    load: str
    concurrency: int | None
    rate: float | None
    requests: int
    ok: int
    errors: dict[str, int]
    details: dict[str, str]
    seconds: float
    requests_per_s: float
    tokens_per_s: float
    events_per_s: float
    tokens_per_event: float | None
    tokens_by_usage: bool
    prompt_tokens: float | None
    ttft_ms: Spread | None
    ttft_ms_by_prompt: dict[str, Spread]
    itl_ms: Spread | None
    tpot_ms: Spread | None
    total_ms: Spread | None
    retries: int
    waited_s: float
    refusals_with_retry_after: int
    warmup: int
    warmup_errors: int
    client: Health
    interrupted: bool


class Search(TypedDict):
    """The search for the greatest concurrency: its limit, what was found (0: not even the start), why it stopped."""

    limit_ms: float
    found: int
    stopped: str


class Run(TypedDict):
    """What `bench run` writes."""

    format: int
    kind: str
    facts: dict[str, Any]
    workload: dict[str, Any]
    cells: list[Cell]
    search: Search | None
    interrupted: bool


class Interval(TypedDict):
    """A median over rounds with the bounds of its 95 % interval."""

    median: float
    low: float
    high: float
    n: int


class Row(TypedDict):
    """One figure of A and B: the median of each, B over A, B minus A."""

    name: str
    a: float | None
    b: float | None
    ratio: Interval | None
    difference: Interval | None


class Comparison(TypedDict):
    """What `bench compare` writes; `cells` in the order in which they were measured, each as [side, cell]."""

    format: int
    kind: str
    facts: dict[str, Any]
    workload: dict[str, Any]
    sides: dict[str, str]
    rows: list[Row]
    cells: list[tuple[str, Cell]]
    interrupted: bool


class NoResult(Exception):
    """A file is none of ours."""


def write(path: Path, result: Run | Comparison) -> None:
    """Writes a result.

    Raises:
        OSError: the file cannot be written.
    """
    path.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2) + b"\n")


def read(path: Path) -> Run | Comparison:
    """Reads a result.

    Raises:
        NoResult: it cannot be read, or is something else.
    """
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise NoResult(f"{path}: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("kind") not in ("run", "compare"):
        raise NoResult(f"{path}: is no result of `tokenlane bench` of format {FORMAT}")
    return cast("Run | Comparison", found)


def cells_of(result: Run | Comparison) -> list[Cell]:
    """The cells of a result, in the order in which they were measured."""
    if result["kind"] == "run":
        return cast("Run", result)["cells"]
    return [cell for _, cell in cast("Comparison", result)["cells"]]


def rounded(value: float) -> float:
    """A figure with five significant digits: more is noise, and makes files long."""
    return value if value == 0 or not math.isfinite(value) else round(value, 4 - math.floor(math.log10(abs(value))))
