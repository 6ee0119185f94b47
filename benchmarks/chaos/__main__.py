"""`python -m benchmarks.chaos`: an hour of chaos, and a report. Exit code 1 if anything is off."""

import argparse
import asyncio
import json
import secrets
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.chaos.report import Report
from benchmarks.chaos.storm import Plan, Storm, stage


def main() -> int:
    """Runs and reports; returns the exit code."""
    options = _parse()
    seed = options.seed or secrets.token_hex(4)
    seconds = options.minutes * 60
    print(f"seed {seed}, {options.minutes:g} minutes, {options.users} clients", flush=True)
    report = asyncio.run(_run(Plan(seed, seconds, min(60.0, seconds / 2), options.users), options.logs))
    options.report.write_text(json.dumps(report.as_dict(), indent=1, ensure_ascii=False))
    print(report.text())
    problems = report.problems()
    print("\n".join(f"WRONG: {problem}" for problem in problems) or "all is well")
    print(f"details: {options.report}")
    return 1 if problems else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long (%(default)s)")
    parser.add_argument("--users", type=int, default=20, help="clients that ask one after another (%(default)s)")
    parser.add_argument("--seed", help="what is asked and what befalls the engines; not given: a new one")
    parser.add_argument("--report", type=Path, default=Path("data/chaos.json"), help="file to write (%(default)s)")
    parser.add_argument("--logs", type=Path, help="folder to keep the logs in; not given: they are not kept")
    options = parser.parse_args()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    return options


async def _run(plan: Plan, logs: Path | None) -> Report:
    with TemporaryDirectory(prefix="tokenlane-chaos-") as scratch:
        folder = (logs or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        async with stage(folder) as (lanes, gateway):
            return await Storm(plan, lanes, gateway).run()


if __name__ == "__main__":
    sys.exit(main())
