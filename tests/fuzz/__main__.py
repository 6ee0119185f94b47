"""`python -m tests.fuzz`: feeds damaged recordings to each target until so many cuts were made. See docs/chaos.md."""

import argparse
import secrets
import sys
import time
import traceback

from tests.fuzz.inputs import Case, case, cases
from tests.fuzz.targets import TARGETS

SHOWN = 5
"""Finds that are told in full."""


def main() -> int:
    """Runs; 1 if anything was found."""
    options = _parse()
    found = sum(_fuzz(name, options) for name in options.targets or TARGETS)
    return 1 if found else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"which of {', '.join(TARGETS)}; not given: all")
    parser.add_argument("--cuts", type=int, default=1_000_000, help="pieces that each target gets (%(default)s)")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="of the inputs; not given: a new one")
    parser.add_argument("--case", help="the name of one case, to run it alone")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(unknown)}")
    return options


def _fuzz(name: str, options: argparse.Namespace) -> int:
    """Feeds one target; how many finds there were."""
    began, cuts, count, found = time.monotonic(), 0, 0, 0
    for one in [case(options.case)] if options.case else cases(options.seed):
        count += 1
        cuts += len(one.pieces)
        found += _finds(name, one, tell=found < SHOWN)
        if cuts >= options.cuts:
            break
    seconds = time.monotonic() - began
    _say(f"{name}: {cuts} cuts of {count} streams in {seconds:.0f} s, seed {options.seed}: {found} finds")
    return found


def _finds(name: str, one: Case, *, tell: bool) -> bool:
    try:
        TARGETS[name](one)
    except Exception:  # noqa: BLE001 - whatever it is, it is a find
        if tell:
            _say(f"{name}: case {one.name}\n{traceback.format_exc()}")
        return True
    return False


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
