"""tokenlane beside other proxies in front of one simulated engine: the second half of `make bench-load`.

All proxies run at once, each with the same core to itself while it is asked, and every answer is checked: its text, its
finish, its usage, its `[DONE]`. Each round asks all of them in turn, cell after cell; `direct` is the engine without a
proxy, and so the limit of what can be measured. nginx takes part where it is installed, others as they are given:

It has to hand the engine the headers of a request, by which pace and stamps are asked for.

    python -m benchmarks.load.peers --peer 'other=other-proxy --port {port} --upstream {engine}' --json
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.bench.facts import facts
from benchmarks.load.cells import CELLS, Cell, chosen
from benchmarks.load.figures import Figures, middle
from benchmarks.load.proxies import Proxy, given, nginx, tokenlane
from benchmarks.load.report import compared, nginx_version, notes, options, save
from benchmarks.load.stage import NotReady, Stage, stage
from benchmarks.proof.process import free_port

Rounds = dict[tuple[str, str], list[Figures]]
"""Cell and proxy -> what each round gave."""


def main() -> int:
    """Measures, prints, writes; 1 if an answer was wrong."""
    parser = options(__doc__)
    parser.add_argument("--cells", type=chosen, default=",".join(CELLS), help="of %(default)s")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="another proxy; repeatable")
    parser.add_argument("--engines", type=int, default=1, help="processes that answer (%(default)s)")
    asked = parser.parse_args()
    about: dict[str, Any] = facts(["python", "-m", "benchmarks.load.peers", *sys.argv[1:]])
    with TemporaryDirectory(prefix="tokenlane-load-") as folder:
        try:
            with stage(Path(folder), asked.engines) as made:
                proxies = entered(made, Path(folder), asked.peer)
                about["cores"] = asdict(made.cores)
                results = played(made, proxies, asked.cells, asked.rounds)
        except (NotReady, ValueError) as error:
            parser.exit(1, f"{error}\n")
    for proxy in proxies:
        if proxy.name == "nginx":
            about["versions"]["nginx"] = nginx_version(proxy.command[0])
    show(asked.cells, proxies, results, asked.engines)
    print(notes(about, [f"rounds: {asked.rounds}"]))
    if asked.json:
        print(save(asked.json, "peers", tree(about, asked.cells, results)))
    return int(any(each.wrong for rounds in results.values() for each in rounds))


def entered(made: Stage, folder: Path, given_ones: Sequence[str]) -> list[Proxy]:
    """All that are compared, the engine itself first, each ready.

    Raises:
        NotReady: one does not answer right.
        ValueError: one was not given as it should be.
    """
    own = [nginx(free_port(), made.engines, folder), tokenlane(free_port(), made.engines)]
    proxies = [proxy for proxy in own if proxy is not None]
    proxies += [given(text, free_port(), made.engines) for text in given_ones]
    for proxy in proxies:
        made.enter(proxy)
    return [made.direct, *proxies]


def played(made: Stage, proxies: Sequence[Proxy], cells: Sequence[Cell], rounds: int) -> Rounds:
    """Every round: all cells, and in each all proxies in turn."""
    results: Rounds = {}
    for number in range(rounds):
        for cell in cells:
            for proxy in proxies:
                found = made.play(proxy, cell)
                results.setdefault((cell.name, proxy.name), []).append(found)
                cpu = f"{found.cpu:.0f} µs" if found.cpu is not None else "-"
                print(f"round {number + 1} {cell.name} {proxy.name}: {found.rate:.0f}/s, {cpu}", file=sys.stderr)
    return results


def show(cells: Sequence[Cell], proxies: Sequence[Proxy], results: Rounds, engines: int) -> None:
    """Prints a table a cell."""
    for cell in cells:
        medians = {proxy.name: middle(results[cell.name, proxy.name]) for proxy in proxies}
        print(compared(cell, medians, engines))


def tree(about: dict[str, Any], cells: Sequence[Cell], results: Rounds) -> dict[str, Any]:
    """As it is written."""
    found = [
        {
            "cell": name,
            "proxy": proxy,
            "median": middle(rounds).as_dict(),
            "rounds": [each.as_dict() for each in rounds],
        }
        for (name, proxy), rounds in results.items()
    ]
    return {"facts": about, "cells": [asdict(cell) for cell in cells], "results": found}


if __name__ == "__main__":
    sys.exit(main())
