"""The command line: `tokenlane COMMAND`.

A command is a module here with `add(commands)`, and a line in `COMMANDS`. What it needs is imported when it runs,
so that `--help` and mistakes answer at once. Exit status: 0 done, 1 the configuration cannot be used, 2 wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from app.cli import bench, config, engine, keys, serve, sim

COMMANDS = (serve, sim, config, keys, engine, bench)


class PrintVersion(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Prints it and exits."""
        print(f"tokenlane {version('tokenlane')}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; raises SystemExit for --help, --version and wrong usage."""
    parsed = parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:  # `tokenlane config show | head`: nobody reads on, which is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; what it returns has `run`, a function that takes it and returns the exit status."""
    top = argparse.ArgumentParser(
        prog="tokenlane", description="An OpenAI-compatible gateway with a token buffer and two lanes in front of vLLM."
    )
    top.add_argument("--version", action=PrintVersion, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return top
