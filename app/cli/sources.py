"""What the command line says about settings, and how mistakes in them are told."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.load import Loaded

SHORTCUTS = {"host": "server.host", "port": "server.port"}
"""Options that stand for a setting."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds --config, --host, --port and --set."""
    parser.add_argument("--config", type=Path, metavar="PATH", help="TOML file (config/gateway.toml if it is there)")
    parser.add_argument("--host", help="address to listen on: --set server.host=HOST")
    parser.add_argument("--port", help="port to listen on: --set server.port=PORT")
    parser.add_argument(
        "--set",
        dest="assignments",
        type=assignment,
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="one setting, such as lanes.batch.queue=128; may be given again",
    )


def assignment(text: str) -> tuple[str, str]:
    """Splits `path=value`; raises ArgumentTypeError where there is no path or no `=`."""
    path, sign, value = text.partition("=")
    if not sign or not path.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not PATH=VALUE, such as lanes.batch.queue=128")
    return path.strip(), value.strip()


def load(arguments: argparse.Namespace) -> "Loaded | None":
    """The settings, or None when they cannot be used; then every problem was printed, a line each."""
    from config.load import load as load_settings
    from config.problems import ConfigError

    given = {SHORTCUTS[name]: getattr(arguments, name) for name in SHORTCUTS if getattr(arguments, name) is not None}
    try:
        return load_settings(overrides=dict(arguments.assignments) | given, file=arguments.config)
    except ConfigError as error:
        for problem in error.problems:
            print(f"tokenlane: {problem}", file=sys.stderr)
        return None
