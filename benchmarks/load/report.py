"""Results of a load as Markdown and as dated JSON. Reading no clock: the facts have the date."""

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.bench.report.markdown import number, table
from benchmarks.load.cells import Cell
from benchmarks.load.figures import Figures, ratio

RESULTS = Path(__file__).parents[1] / "results"
OTHERS = 0.1
"""Cores that others may use while it is measured."""
FULL = 0.95
"""Share of their cores from which engines and client are what is measured."""


def options(description: str | None) -> argparse.ArgumentParser:
    """What every command here understands."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of all, in turn; the tables have medians (%(default)s)")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=RESULTS,
        metavar="FOLDER",
        help="write DATE-NAME.json there; without a folder: benchmarks/results",
    )
    return parser


def save(folder: Path, name: str, tree: Mapping[str, Any]) -> Path:
    """Writes a result with its facts; the file is named for the day in them."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{tree['facts']['at'][:10]}-{name}.json"
    file.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    return file


def compared(cell: Cell, peers: Mapping[str, Figures], cores: int = 1) -> str:
    """A cell as a table, a proxy a line; ratios are to nginx for CPU, to the engine itself for the rest."""
    nginx, direct = peers.get("nginx"), peers["direct"]
    unit = cell.unit
    head = ["", f"CPU µs a {unit}", "of nginx's", f"{unit}s/s", "of direct"]
    head += ["TTFT p50 / p99 ms" if cell.stream else "answer p50 / p99 ms", "p50 of direct"]
    head += ["age p50 / p99 ms", "events a token", "end p99 ms"] if cell.stream else []
    head += ["RSS MiB", "engine and client", "wrong"]
    lines = []
    for name, own in peers.items():
        line = [name, number(own.cpu), _times(own.cpu, nginx.cpu if nginx else None)]
        line += [number(own.rate), _times(own.rate, direct.rate)]
        line += [_pair(own.wait_p50, own.wait_p99), _times(own.wait_p50, direct.wait_p50)]
        line += [_pair(own.age_p50, own.age_p99), number(own.events), number(own.tail_p99)] if cell.stream else []
        full = own.busy > FULL * cores
        lines.append([*line, number(own.memory), f"{own.busy / cores:.0%}{' (full)' if full else ''}", str(own.wrong)])
    return "\n".join([f"### {cell.title}", "", *table(head, lines), "", *doubts(peers)])


def doubts(peers: Mapping[str, Figures]) -> list[str]:
    """What puts a table in doubt, each a paragraph."""
    found = [f"**Wrong** from {name}: {own.complaint}\n" for name, own in peers.items() if own.complaint]
    others = max(own.others for own in peers.values())
    if others > OTHERS:
        found.append(
            f"**Other processes** used {others:.2f} cores meanwhile: only a machine at rest gives true times.\n"
        )
    return found


def nginx_version(program: str) -> str:
    """As nginx tells."""
    told = subprocess.run([program, "-v"], capture_output=True, text=True, check=False)
    return told.stderr.strip().rpartition("/")[2]


def _pair(low: float | None, high: float | None) -> str:
    return f"{number(low)} / {number(high)}"


def _times(value: float | None, base: float | None) -> str:
    times = ratio(value, base)
    return "-" if times is None else f"{times:.2f}"


def notes(facts: Mapping[str, Any], more: Sequence[str] = ()) -> str:
    """Under which circumstances it was measured, as a line."""
    machine = facts["machine"]
    versions = ", ".join(f"{name} {value}" for name, value in facts["versions"].items())
    where = f"{machine['cpu']}, {machine['cpus_allowed']} of {machine['cpus']} CPUs, load {machine['load_before']}"
    return "; ".join([where, versions, f"commit {facts['commit'] or 'unknown'}", facts["at"], *more])
