"""Results as Markdown."""

from collections.abc import Sequence
from typing import Any, cast

from app.bench.ratios import ORDER
from app.bench.result import Cell, Comparison, Interval, Row, Run, Spread, cells_of

BUSY = 0.7
"""Share of a core above which the client itself may have slowed what it measured."""
ENOUGH_ROUNDS = 5
"""Rounds from which the range of all, the widest interval there is, holds their true median in 94 % of cases."""
LAGS_MS = 10.0
"""Milliseconds by which its event loop may be late at the 99th percentile."""
_DIGITS = ((99.95, ",.0f"), (9.995, ".1f"), (0.9995, ".2f"))
COLUMNS = (
    "load",
    "ok",
    "errors",
    "req/s",
    "tok/s",
    "TTFT P50 / P95 / P99, ms",
    "ITL P50 / P95 / P99, ms",
    "TPOT P50 / P95, ms",
    "tok/event",
    "client CPU",
)


def cell_line(cell: Cell) -> str:
    """A cell in one line of text."""
    parts = [
        f"{cell['ok']}/{cell['requests']} ok",
        f"{number(cell['tokens_per_s'])} tok/s",
        f"TTFT {triple(cell['ttft_ms'])} ms",
        f"ITL {triple(cell['itl_ms'])} ms",
    ]
    if cell["errors"]:
        parts.append(errors(cell))
    if cell["interrupted"]:
        parts.append("interrupted")
    return ", ".join(parts)


def markdown(result: Run | Comparison) -> str:
    """A result as Markdown, with a line break at its end."""
    body = _run(cast("Run", result)) if result["kind"] == "run" else _comparison(cast("Comparison", result))
    return "\n".join([*body, "", *notes(result), ""])


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A table; the first column is text, the others are numbers."""
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(line)} |" for line in (head, rule, *lines)]


def cell_row(cell: Cell) -> list[str]:
    """A cell as a row under `COLUMNS`."""
    return [
        cell["load"] + (" (interrupted)" if cell["interrupted"] else ""),
        f"{cell['ok']}/{cell['requests']}",
        errors(cell) or "none",
        number(cell["requests_per_s"]),
        number(cell["tokens_per_s"]),
        triple(cell["ttft_ms"]),
        triple(cell["itl_ms"]),
        pair(cell["tpot_ms"]),
        number(cell["tokens_per_event"]),
        f"{cell['client']['cpu_share']:.0%}",
    ]


def comparison_row(row: Row) -> list[str]:
    """A figure of a comparison as a row."""
    return [row["name"], number(row["a"]), number(row["b"]), interval(row["ratio"]), interval(row["difference"])]


COMPARED = ("figure", "A", "B", "B / A [95 %]", "B - A [95 %]")


def notes(result: Run | Comparison) -> list[str]:
    """Under which circumstances it was measured, and what puts it in doubt, as a Markdown list."""
    facts, work = result["facts"], result["workload"]
    machine: dict[str, Any] = facts.get("machine", {})
    versions = ", ".join(f"{name} {value}" for name, value in facts.get("versions", {}).items())
    prompts = ", ".join(map(str, work["prompt_tokens"]))
    where = (
        f"{machine.get('cpu')}, {machine.get('cpus_allowed')} of {machine.get('cpus')} CPUs, {machine.get('system')}"
    )
    counted = [cell["prompt_tokens"] for cell in cells_of(result) if cell["prompt_tokens"] is not None]
    tokens = f" ({number(sum(counted) / len(counted))} tokens)" if counted else ""
    asked = (
        f"model {work['model']}, {work['endpoint']}, prompts of {prompts} words{tokens}, {work['shared_prefix']} shared"
    )
    lines = [
        f"`{facts.get('command', '')}`, {facts.get('at', '')}, commit {facts.get('commit') or 'unknown'}",
        f"{where}, load {machine.get('load_before')}; {versions}",
        f"{asked}, at most {work['max_tokens']} tokens, seed {work['seed']}",
    ]
    return [f"- {line}" for line in lines] + [f"- **{doubt}**" for doubt in doubts(result)]


def doubts(result: Run | Comparison) -> list[str]:
    """What the reader should know before believing a figure."""
    cells = cells_of(result)
    found = ["it was interrupted: what is told is what was measured until then"] if result["interrupted"] else []
    busy = [cell["load"] for cell in cells if cell["client"]["cpu_share"] > BUSY]
    lags = [cell["load"] for cell in cells if (lag := cell["client"]["lag_ms"]) and lag["p99"] > LAGS_MS]
    if busy:
        found.append(f"the client itself used more than {BUSY:.0%} of a core at: {', '.join(dict.fromkeys(busy))}")
    if lags:
        found.append(f"the client was called more than {LAGS_MS:g} ms late (P99) at: {', '.join(dict.fromkeys(lags))}")
    if any(cell["ok"] and not cell["tokens_by_usage"] for cell in cells):
        found.append("the server stated no usage: tokens are counted by events")
    if any(cell["warmup_errors"] for cell in cells):
        found.append("some requests of the warm-up failed")
    if result["kind"] == "compare" and 0 < (rounds := len(cells) // len(ORDER)) < ENOUGH_ROUNDS:
        held = 1 - 2.0 ** (1 - rounds)
        found.append(f"an interval from {rounds} round(s) holds the truth in {held:.0%} of cases, not in 95 %")
    return found


def errors(cell: Cell) -> str:
    """The errors of a cell by kind."""
    return ", ".join(f"{count} {kind}" for kind, count in cell["errors"].items())


def triple(spread: Spread | None) -> str:
    """The three percentiles."""
    return "-" if spread is None else " / ".join(map(number, (spread["p50"], spread["p95"], spread["p99"])))


def pair(spread: Spread | None) -> str:
    """The two percentiles of what has one sample a request."""
    return "-" if spread is None else " / ".join(map(number, (spread["p50"], spread["p95"])))


def interval(value: Interval | None) -> str:
    """A median and its interval."""
    return "-" if value is None else f"{number(value['median'])} [{number(value['low'])}, {number(value['high'])}]"


def number(value: float | None) -> str:
    """A figure with three digits, or all of those before the point."""
    if value is None:
        return "-"
    return format(value, next((digits for least, digits in _DIGITS if abs(value) >= least), ".3g"))


def searched(run: Run) -> str:
    """What the search found."""
    found = run["search"]
    if found is None:
        return ""
    limit = number(found["limit_ms"])
    return f"Greatest concurrency with TTFT P95 under {limit} ms: **{found['found']}** ({found['stopped']})."


def _run(run: Run) -> list[str]:
    lines = table(COLUMNS, [cell_row(cell) for cell in run["cells"]])
    if found := searched(run):
        lines += ["", found]
    details = [f"- {cell['load']}, {kind}: {said}" for cell in run["cells"] for kind, said in cell["details"].items()]
    return [*lines, *_by_prompt(run), *(["", *details] if details else [])]


def _by_prompt(run: Run) -> list[str]:
    """TTFT by length of the prompt, where there are several."""
    lengths = run["workload"]["prompt_tokens"]
    if len(lengths) < 2:
        return []
    head = ["TTFT P50 / P95 / P99, ms", *(f"{length} words" for length in lengths)]
    told = [(cell["load"], cell["ttft_ms_by_prompt"]) for cell in run["cells"]]
    return ["", *table(head, [[load, *(triple(found.get(str(n))) for n in lengths)] for load, found in told])]


def _comparison(comparison: Comparison) -> list[str]:
    told = [f"{side}: {what}  " for side, what in comparison["sides"].items()]
    return [*told, "", *table(COMPARED, [comparison_row(row) for row in comparison["rows"]])]
