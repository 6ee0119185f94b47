"""Instructions of a flush of two tokens, counted by valgrind: `python -m benchmarks.micro.instructions`.

They are the same on a busy machine and differ by a percent from run to run, so that they show what a clock does not.
Counted are many flushes without those of a few, so that the start does not count. Needs valgrind, and a minute.
"""

import os
import re
import subprocess
import sys

from benchmarks.micro.flow import TOKENS, flow

FEW, MANY = 500, 2500
"""Flushes of the two runs."""


def main() -> int:
    """Counts and prints; as the program that is counted, with a number behind it, flushes so often."""
    if len(sys.argv) > 1:
        with flow() as made:
            for _ in range(int(sys.argv[1])):
                made.step()
        return 0
    few, many = (counted(flushes) for flushes in (FEW, MANY))
    a_flush = (many - few) / (MANY - FEW)
    print(f"{a_flush:,.0f} instructions a flush of {TOKENS} tokens")
    return 0


def counted(flushes: int) -> int:
    """Instructions of a run with so many flushes.

    Raises:
        CalledProcessError: valgrind, or what it ran, failed.
    """
    count = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    run = [sys.executable, "-m", "benchmarks.micro.instructions", str(flushes)]
    done = subprocess.run(
        [*count, *run], env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


if __name__ == "__main__":
    sys.exit(main())
