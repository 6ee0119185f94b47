"""What the token buffer does to a stream, at several paces of the engine: the first half of `make bench-load`.

One simulated engine and one gateway, each a process of its own; both are asked in turn, `--rounds` times, by streams
that begin within one step of the engine. Each token carries the time at which the engine sent it, so that its age at
the client is known. Medians of the rounds.

    events   events a token                             bytes   body bytes a token
    TTFT     to the first token, median, milliseconds   age     from the engine's sending to the client, milliseconds
    CPU      of the gateway's process, microseconds a token
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.bench.facts import facts
from app.bench.report.markdown import number, table
from benchmarks.load.cells import Cell
from benchmarks.load.figures import Figures, middle
from benchmarks.load.proxies import tokenlane
from benchmarks.load.report import doubts, notes, options, save
from benchmarks.load.stage import NotReady, stage
from benchmarks.proof.process import free_port

PACES = {3.0: 400, 12.0: 160, 20.0: 128, 85.0: 40}
"""Milliseconds a token -> tokens of an answer."""
HEAD = ("ms a token", "events a token", "bytes a token", "TTFT ms", "age p50, p99 ms", "CPU µs a token")
Both = tuple[Figures, Figures]
"""Of the engine itself, and through the gateway."""


def main() -> int:
    """Measures, prints, writes; 1 if an answer was wrong."""
    parser = options(__doc__)
    parser.add_argument("--streams", type=int, default=16)
    asked = parser.parse_args()
    about: dict[str, Any] = facts(["python", "-m", "benchmarks.load.buffer", *sys.argv[1:]])
    try:
        found = measured(asked.rounds, asked.streams)
    except NotReady as error:
        parser.exit(1, f"{error}\n")
    print("Pairs are direct / through the gateway; ages are those through the gateway.\n")
    print("\n".join(table(HEAD, [row(pace, both) for pace, both in found.items()])))
    for pace, (direct, gateway) in found.items():
        print(
            "".join(f"\n{pace:g} ms: {doubt}" for doubt in doubts({"direct": direct, "the gateway": gateway})), end=""
        )
    print(f"\n{notes(about, [f'streams: {asked.streams}', f'rounds: {asked.rounds}'])}\n")
    if asked.json:
        rows = [{"pace": pace, "direct": a.as_dict(), "gateway": b.as_dict()} for pace, (a, b) in found.items()]
        tree = {"facts": about, "streams": asked.streams, "rounds": asked.rounds, "rows": rows}
        print(save(asked.json, "buffer", tree))
    return int(any(each.wrong for both in found.values() for each in both))


def measured(rounds: int, streams: int) -> dict[float, Both]:
    """Every pace, engine and gateway in turn.

    Raises:
        NotReady: one of them does not answer.
    """
    cells = [
        Cell(f"{gap:g} ms", clients=streams, gap=gap, tokens=tokens, ramp=gap / 1000) for gap, tokens in PACES.items()
    ]
    with TemporaryDirectory(prefix="tokenlane-load-") as folder, stage(Path(folder)) as made:
        gateway = tokenlane(free_port(), made.engines)
        made.enter(gateway)
        made.play(gateway, cells[0])  # what is slow once
        pairs = [
            {cell: (made.play(made.direct, cell), made.play(gateway, cell)) for cell in cells} for _ in range(rounds)
        ]
    return {
        cell.gap: (middle(pair[cell][0] for pair in pairs), middle(pair[cell][1] for pair in pairs)) for cell in cells
    }


def row(pace: float, both: Both) -> list[str]:
    """A pace as a line of the table."""
    direct, gateway = both
    return [
        f"{pace:g}",
        f"{number(direct.events)} / {number(gateway.events)}",
        f"{number(direct.size)} / {number(gateway.size)}",
        f"{number(direct.wait_p50)} / {number(gateway.wait_p50)}",
        f"{number(gateway.age_p50)}, {number(gateway.age_p99)}",
        number(gateway.cpu),
    ]


if __name__ == "__main__":
    sys.exit(main())
