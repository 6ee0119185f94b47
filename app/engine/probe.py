"""Runs in the Python of a vLLM and asks vLLM's own parser; knows nothing of this project.

The source is handed to `python -c`, so that no folder of ours is on that Python's path. Standard input is a JSON
list of command lines, each a list of words after `vllm serve`; standard output is one JSON object:

    version    of vLLM
    answers    one a command line: null, or why the parser refused it
    options    every option: its spellings, choices, nargs, the function that reads a value, whether it is a switch

vLLM prints and logs while it is imported: everything but the object goes to standard error.
"""

import argparse
import importlib
import json
import os
import sys
from typing import Any, NoReturn

MODEL = "model"


class Refused(Exception):
    """What a parser would have printed before it ends the process."""


def refuse(message: str) -> NoReturn:
    """Stands in for `ArgumentParser.error`."""
    raise Refused(message)


def parsers() -> tuple[Any, argparse.ArgumentParser]:
    """The top parser of vLLM and the one of `serve`."""
    top = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser(prog="vllm")
    commands = top.add_subparsers(dest="subparser")
    (serve,) = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()
    parser = serve.subparser_init(commands)
    top.error = parser.error = refuse
    return top, parser


def answer(top: Any, words: list[str]) -> str | None:
    """None if the parser takes the words, else why not."""
    try:
        top.parse_args(["serve", MODEL, *words])
    except (Refused, ValueError, TypeError) as error:
        return str(error)
    except SystemExit as end:
        return f"ended with {end.code}"
    return None


def option(action: argparse.Action) -> dict[str, Any]:
    """One option, as JSON."""
    return {
        "names": list(action.option_strings),
        "switch": action.nargs == 0,
        "nargs": action.nargs if action.nargs != 0 else None,
        "choices": [str(choice) for choice in action.choices] if action.choices else None,
        "type": getattr(action.type, "__name__", None),
    }


def main() -> None:
    """Read the lines, write the object."""
    out = os.dup(1)
    os.dup2(2, 1)
    lines = json.load(sys.stdin)
    top, parser = parsers()
    result = {
        "version": importlib.import_module("vllm").__version__,
        "answers": [answer(top, words) for words in lines],
        "options": [option(action) for action in parser._actions if action.option_strings],  # noqa: SLF001 - no other way
    }
    with os.fdopen(out, "w") as stream:
        json.dump(result, stream)


if __name__ == "__main__":
    main()
