"""`python -m benchmarks.proof.plot RESULT.json --out FOLDER`: chat beside batch and the first burst, as SVG and PNG."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from app.bench.report.markdown import number
from app.bench.report.png import NoPng, png
from app.bench.report.svg import COLOURS, RIGHT, TOP, WIDTH, Scale, drawing

NAMES = 214
"""Pixels for the names of bars, at least."""
LETTER = 6.6
"""Pixels of a letter, for names that need more."""
BAR = 20
VALUE = 84
"""Pixels that a value beside its bar takes."""
WITHIN = 46
"""Pixels of a bar from which its value fits into it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, its value in milliseconds, and the number of its colour."""

    name: str
    value: float
    colour: int


def bars(title: str, note: str, shown: Sequence[Bar]) -> str:
    """Bars beside each other's names, the values written at their ends, as a whole SVG; from 0, linear."""
    height = TOP + (BAR + 8) * len(shown) + 34
    names = max(NAMES, round(LETTER * max(len(bar.name) for bar in shown)))
    across = Scale(0, max(bar.value for bar in shown) or 1, names, WIDTH - RIGHT - VALUE)
    parts = []
    for index, bar in enumerate(shown):
        y = TOP + 4 + (BAR + 8) * index
        end = max(across.at(bar.value), names + 1)
        parts.append(f'<text x="{names - 8}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>')
        parts.append(
            f'<rect x="{names}" y="{y}" width="{end - names:.1f}" height="{BAR}" rx="2" fill="{COLOURS[bar.colour]}"/>'
        )
        parts.append(f'<text x="{end + 6:.1f}" y="{y + 14}">{said(bar.value)}</text>')
    parts.append(f'<text x="{names}" y="{height - 12}">{escape(note)}</text>')
    return drawing(title, height, parts)


def said(milliseconds: float) -> str:
    """A time as people say it."""
    return f"{number(milliseconds / 1000)} s" if milliseconds >= 1000 else f"{number(milliseconds)} ms"


def lanes(tree: dict[str, Any], users: int | None = None) -> str | None:
    """TTFT P95 of chat alone and beside so many batch users (the most) of each arrangement; None without a result."""
    entries = [entry for entry in tree.get("lanes", []) if entry["chat"]["ttft_ms"]]
    idle = next((entry for entry in entries if entry["users"] == 0), None)
    users = users or max((entry["users"] for entry in entries), default=0)
    if idle is None or users == 0:
        return None
    shown = [Bar("chat alone", idle["chat"]["ttft_ms"]["p95"], 7)]
    for entry in entries:
        if entry["users"] == users:
            colour = 1 if entry["how"].startswith("shared") else 0 if entry["how"].startswith("single") else 2
            shown.append(Bar(entry["how"], entry["chat"]["ttft_ms"]["p95"], colour))
    return bars("Chat: time to first token, P95", f"beside {users} batch users who never pause", shown)


def bursts(tree: dict[str, Any]) -> str | None:
    """TTFT P95 of the first burst after each kind of start; None without such a result."""
    entries = [entry for entry in tree.get("bursts", []) if entry["cell"]["ttft_ms"]]
    if not entries:
        return None
    users = entries[0]["users"]
    first = [entry for entry in entries if entry["users"] == users]
    shown = [
        Bar(
            entry["start"] if entry["turn"] == 1 else "the same burst again",
            entry["cell"]["ttft_ms"]["p95"],
            _colour(entry["start"]) if entry["turn"] == 1 else 7,
        )
        for entry in first
    ]
    return bars("First burst after a start: time to first token, P95", f"{users} users at once", shown)


def _colour(start: str) -> int:
    colours = {"no warm-up": 1, "three single requests": 4, "tokenlane engine warmup": 0}
    return next((colour for name, colour in colours.items() if start.startswith(name)), 7)


def together(trees: Sequence[dict[str, Any]], only: Sequence[str] | None = None) -> dict[str, Any]:
    """What is drawn of several results: lanes of all, or of the arrangements named (and chat alone), and the bursts."""
    found = {name: [entry for tree in trees for entry in tree.get(name, [])] for name in ("lanes", "bursts")}
    if only:
        found["lanes"] = [entry for entry in found["lanes"] if entry["users"] == 0 or entry["how"] in only]
    return found


def main() -> int:
    """Draws; returns 1 where there was nothing to draw, or no browser for a PNG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, help="files that `gpu` or `cpu` wrote, drawn together")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--users", type=int, help="of the batch beside chat (the most)")
    parser.add_argument("--only", action="append", metavar="HOW", help="an arrangement to show (all)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tree = together([json.loads(result.read_text(encoding="utf-8")) for result in options.results], options.only)
    drawn = 0
    for name, picture in (("lanes", lanes(tree, options.users)), ("first-burst", bursts(tree))):
        if picture is None:
            continue
        file = options.out / f"{options.results[-1].stem}-{name}.svg"
        file.write_text(picture + "\n", encoding="utf-8")
        drawn += 1
        print(file)
        try:
            png(file, file.with_suffix(".png"))
        except NoPng as error:
            print(error, file=sys.stderr)
            return 1
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main())
