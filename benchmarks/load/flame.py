"""Where the gateway's CPU goes, as docs/images/flame-paced.svg: `python -m benchmarks.load.flame`.

A cell of load runs while py-spy looks at the gateway's stacks, Python's and native ones. py-spy is no part of the
project: `pip install py-spy` anywhere, and name it with --py-spy if it is not on the path. It has to be allowed to
look into other processes (on Linux: as root, or with `kernel.yama.ptrace_scope=0`).
"""

import argparse
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from app.bench.facts import commit
from benchmarks.load.cells import CELLS, Cell
from benchmarks.load.flames import boxes, drawn, fold
from benchmarks.load.proxies import tokenlane
from benchmarks.load.stage import NotReady, stage
from benchmarks.proof.process import ROOT, free_port

PICTURE = ROOT / "docs" / "images" / "flame-paced.svg"
RATE = 250
"""Samples a second."""
PACED = [name for name, cell in CELLS.items() if cell.gap]
"""Cells that last as long as they are said to."""


def main() -> int:
    """Samples and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", choices=PACED, default="paced-20", help="(%(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="to sample for (%(default)s)")
    parser.add_argument("--py-spy", default="py-spy", help="the program (%(default)s)")
    parser.add_argument("--output", type=Path, default=PICTURE)
    asked = parser.parse_args()
    if shutil.which(asked.py_spy) is None:
        parser.exit(1, "py-spy is not here: install it, or name it with --py-spy\n")
    cell = CELLS[asked.cell]
    cell = replace(cell, answers=1 + math.ceil(asked.seconds * 1000 / (cell.gap * cell.tokens)))
    try:
        root = fold(sampled(asked.py_spy, cell, asked.seconds).splitlines())
    except (NotReady, subprocess.CalledProcessError) as error:
        parser.exit(1, f"{error}\n")
    if not root.samples:
        parser.exit(1, "py-spy saw nothing\n")
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    title = f"tokenlane, {cell.title}: CPU by function, {root.samples:,} samples, commit {commit() or 'unknown'}"
    asked.output.write_text(drawn(title, boxes(root)), encoding="utf-8")
    print(f"{asked.output}: {asked.output.stat().st_size / 1024:.0f} KiB, {root.samples:,} samples")
    return 0


def sampled(program: str, cell: Cell, seconds: int) -> str:
    """Folded stacks of a gateway in its cell.

    Raises:
        NotReady: engine or gateway do not answer.
        CalledProcessError: py-spy failed.
    """
    with TemporaryDirectory(prefix="tokenlane-load-") as folder, stage(Path(folder)) as made:
        gateway = tokenlane(free_port(), made.engines)
        made.enter(gateway)
        made.play(gateway, replace(cell, answers=1))  # what is slow once
        raw = f"{folder}/stacks"
        [pid] = made.pids(gateway)
        options = ["--native", "--format", "raw", "--rate", str(RATE), "--duration", str(seconds), "--output", raw]
        with subprocess.Popen([program, "record", *options, "--pid", str(pid)], stdout=subprocess.DEVNULL) as spy:
            made.play(gateway, cell)
            if code := spy.wait():
                raise subprocess.CalledProcessError(code, spy.args)
        return Path(raw).read_text()


if __name__ == "__main__":
    sys.exit(main())
