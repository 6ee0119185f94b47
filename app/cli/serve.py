"""`tokenlane serve`: the gateway."""

import argparse
import sys

from app.cli import sources


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    parser = commands.add_parser("serve", help="run the gateway", description="Run the gateway until a signal.")
    sources.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal; 1 when the settings cannot be used."""
    if (loaded := sources.load(arguments)) is None:
        return 1
    from app.serve import CannotListen
    from app.serve import run as serve

    try:
        return serve(loaded.settings)
    except CannotListen as error:
        print(f"tokenlane: {error}", file=sys.stderr)
        return 1
