"""`tokenlane config`: what applies, and whether it can work."""

import argparse

from app.cli import sources


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `config show` and `config check`."""
    parser = commands.add_parser("config", help="show or check the settings")
    actions = parser.add_subparsers(required=True, metavar="show|check")
    for name, run, text in (
        ("show", show, "Print every setting and where it came from; secrets are masked."),
        (
            "check",
            check,
            "Look for mistakes: exit status 1 for what cannot work, a warning for what is likely not meant.",
        ),
    ):
        action = actions.add_parser(name, help=text, description=text)
        sources.add_options(action)
        action.set_defaults(run=run)


def show(arguments: argparse.Namespace) -> int:
    """Prints the effective tree."""
    if (loaded := sources.load(arguments)) is None:
        return 1
    from config.show import lines

    for line in lines(loaded):
        print(line)
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Prints a warning for each thing that is likely not meant, and whether the settings can be used."""
    if (loaded := sources.load(arguments)) is None:
        return 1
    from config.rules import advice

    warnings = advice(loaded.settings)
    for warning in warnings:
        print(f"warning: {warning}")
    print("the settings are valid" + (f"; warnings: {len(warnings)}" if warnings else ""))
    return 0
