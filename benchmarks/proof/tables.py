"""Results as Markdown, and as a file."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.bench.report.markdown import number, table

Tree = Mapping[str, Any]


def write(file: Path, tree: Tree) -> None:
    """Writes a result as JSON."""
    fresh = file.with_suffix(f".{os.getpid()}")  # two processes may write, and others read meanwhile
    fresh.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    fresh.rename(file)


def markdown(tree: Tree) -> str:
    """Each list of a result as a table, and what went wrong."""
    parts = [
        "\n".join([f"### {title}", "", *table(head, [row(entry) for entry in tree[section]]), ""])
        for section, (title, head, row) in TABLES.items()
        if tree.get(section)
    ]
    problems = [f"- **{each['where']}**: {each['what'].splitlines()[0]}" for each in tree.get("problems", [])]
    facts = tree.get("facts", {})
    machine = facts.get("machine", {})
    where = f"{facts.get('at', '')}, commit {facts.get('commit')}, {machine.get('cpu')}, {machine.get('cpus')} CPUs"
    return "\n".join([*parts, *problems, ", ".join([where, *facts.get("cards", [])])])


def pair(spread: Mapping[str, float] | None) -> str:
    """Median and 95th percentile."""
    return f"{number(spread['p50'])} / {number(spread['p95'])}" if spread else "-"


def middle(spread: Mapping[str, float] | None) -> str:
    """The median."""
    return number(spread["p50"]) if spread else "-"


def wrong(cell: Tree) -> str:
    """Errors of a cell."""
    return ", ".join(f"{count} {kind}" for kind, count in cell["errors"].items()) or "none"


def _engine(entry: Tree) -> list[str]:
    return [entry["name"], number(entry["start_s"]), " ".join(entry["flags"]), " ".join(entry["dropped"]) or "none"]


def _burst(entry: Tree) -> list[str]:
    cell = entry["cell"]
    again = "" if entry["turn"] == 1 else ", again"
    return [
        f"{entry['start']}{again}",
        str(entry["users"]),
        number(entry["warmup_s"]),
        pair(cell["ttft_ms"]),
        middle(cell["tpot_ms"]),
        number(cell["tokens_per_s"]),
        wrong(cell),
    ]


def _row(entry: Tree) -> list[str]:
    cell = entry["cell"]
    figures = [pair(cell["ttft_ms"]), pair(cell["tpot_ms"]), number(cell["tokens_per_s"]), wrong(cell)]
    return [entry["profile"], str(entry["users"]), *figures]


def _lanes(entry: Tree) -> list[str]:
    chat, batch = entry["chat"], entry["batch_tokens_per_s"]
    figures = [pair(chat["ttft_ms"]), middle(chat["tpot_ms"]), "-" if batch is None else number(batch), wrong(chat)]
    return [entry["how"], str(entry["users"] or "idle"), *figures]


def _compare(entry: Tree) -> list[str]:
    rows = {row["name"]: row for row in entry["rows"]}
    figures = ("TTFT P50, ms", "TTFT P95, ms", "ITL P50, ms", "TPOT P50, ms", "tokens/s", "tokens an event")
    return [
        str(entry["users"]),
        *(_sides(rows[name]) for name in figures),
        number(entry["gateway_cpu_s_per_1000_tokens"]),
    ]


def _sides(row: Tree) -> str:
    if row["a"] is None or row["b"] is None:
        return "-"
    ratio = f" ({row['ratio']['median']:.3f})" if row["ratio"] else ""
    return f"{number(row['a'])} / {number(row['b'])}{ratio}"


def _interval(entry: Tree) -> list[str]:
    cell = entry["cell"]
    events = 1 / cell["tokens_per_event"] if cell["tokens_per_event"] else 0
    return [
        str(entry["interval"]),
        entry["through"],
        str(entry["users"]),
        number(cell["tokens_per_s"]),
        f"{events:.2f}",
        pair(cell["ttft_ms"]),
        middle(cell["tpot_ms"]),
        number(entry["engine_cpu_s"]),
    ]


def _pool(entry: Tree) -> list[str]:
    cell = entry["cell"]
    figures = [
        number(cell["requests_per_s"]),
        number(cell["tokens_per_s"]),
        pair(cell["ttft_ms"]),
        number(entry["queued_s"]) if entry["queued_s"] is not None else "-",
        wrong(cell),
    ]
    return [str(entry["pool_size"]), str(entry["users"]), *figures]


def _arrivals(entry: Tree) -> list[str]:
    gaps = f"{number(entry['gap_p50_ms'])} / {number(entry['gap_p99_ms'])}"
    return [
        entry["way"],
        str(entry["streams"]),
        number(entry["ttft_p50_ms"]),
        gaps,
        f"{entry['events_a_read']:.2f}",
        number(entry["last_minus_first_ms"]),
    ]


def _baseline(entry: Tree) -> list[str]:
    cell = entry["cell"]
    mean = number(cell["ttft_ms"]["mean"]) if cell["ttft_ms"] else "-"
    figures = [mean, pair(cell["ttft_ms"]), middle(cell["tpot_ms"]), number(cell["tokens_per_s"]), wrong(cell)]
    return [entry["server"], entry["load"], *figures]


def _batch(entry: Tree) -> list[str]:
    chat, batch = entry["chat"], entry["batch"]
    figures = [pair(chat["ttft_ms"]), ratio(entry["p95_ratio"]), middle(chat["tpot_ms"])] if chat else ["-"] * 3
    told = ["-"] * 4
    if batch:
        rest = batch["longest_rest_s"]
        told = [
            str(batch["lines"]),
            number(batch["lines_per_s"]),
            "-" if rest is None else number(rest),
            f"{number(batch['pace_p50'] or 0)} / {number(batch['pace_most'] or 0)}",
        ]
    return [entry["who"], *figures, *told, wrong(chat) if chat else "-"]


def ratio(value: float | None) -> str:
    """Two digits, or nothing."""
    return "-" if value is None else f"{value:.2f}"


def _restart(entry: Tree) -> list[str]:
    again = entry["ran_again"]
    return [
        entry["how"],
        str(entry["lines"]),
        str(entry["results"]),
        ", ".join(entry["wrong"]) or "none",
        f"{entry['recorded_before']} / {entry['changed']}",
        "-" if again is None else f"{again:.0f} of {entry['may_run_again']:.0f}",
        ", ".join(f"{name} {number(seconds)}" for name, seconds in entry["seconds"].items()),
    ]


Writer = tuple[str, Sequence[str], Callable[[Tree], list[str]]]
TABLES: dict[str, Writer] = {
    "engines": ("Engines", ("engine", "start, s", "flags", "left out"), _engine),
    "bursts": (
        "First burst after a start",
        ("before it", "users", "s", "TTFT P50 / P95, ms", "TPOT P50, ms", "tok/s", "errors"),
        _burst,
    ),
    "rows": (
        "Profiles, warm",
        ("profile", "users", "TTFT P50 / P95, ms", "TPOT P50 / P95, ms", "tok/s", "errors"),
        _row,
    ),
    "lanes": (
        "Chat beside batch",
        ("arrangement", "batch users", "chat TTFT P50 / P95, ms", "chat TPOT, ms", "batch tok/s", "chat errors"),
        _lanes,
    ),
    "compare": (
        "Engine / gateway (ratio)",
        ("users", "TTFT P50", "TTFT P95", "ITL P50", "TPOT P50", "tok/s", "tok/event", "gateway CPU s per 1000 tokens"),
        _compare,
    ),
    "interval": (
        "Tokens an event",
        ("--stream-interval", "through", "users", "tok/s", "events a token", "TTFT P50 / P95, ms", "TPOT, ms", "CPU s"),
        _interval,
    ),
    "pools": (
        "Pool size",
        ("pool_size", "users", "req/s", "tok/s", "TTFT P50 / P95, ms", "mean s queued", "errors"),
        _pool,
    ),
    "arrivals": (
        "Arrival of events",
        ("way", "streams", "TTFT P50, ms", "gap P50 / P99, ms", "events a read", "first to last event, ms"),
        _arrivals,
    ),
    "baseline": (
        "transformers serve and vLLM",
        ("server", "load", "TTFT mean, ms", "TTFT P50 / P95, ms", "TPOT, ms", "tok/s", "errors"),
        _baseline,
    ),
    "batch": (
        "A batch beside chat on one engine (the first token's P95 may be 1.3 times that of chat alone)",
        (
            *("who", "chat TTFT P50 / P95, ms", "P95 / alone", "chat TPOT, ms", "lines", "lines/s"),
            *("longest time without a line, s", "lines at once, P50 / most", "chat errors"),
        ),
        _batch,
    ),
    "restarts": (
        "Gateways that were stopped and killed in the middle of a batch",
        (
            *("what happened", "lines", "results", "missing, twice, bad, changed, miscounted"),
            *("recorded before / changed later", "lines that ran again, of those that may", "seconds"),
        ),
        _restart,
    ),
}
"""Section of a book -> its title, its columns and what an entry is in them."""
