"""Two ways to ask a parser of vLLM: the installed one, in its own Python, and one built from the catalogue."""

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from app.engine.catalogue import Catalogue, Option, from_probe
from app.engine.line import has_key, options_of, spelt

PROBE = Path(__file__).with_name("probe.py")
TIMEOUT = 180
"""Seconds until a vLLM has to have been imported: 10 when it is in the page cache, a minute when not."""

COUNT = re.compile(r"-?\d+|\d+(\.\d+)?[kmgtKMGT]?")


class NoAnswer(Exception):
    """The Python that was asked has no vLLM that can be asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a parser says.

    Args:
        catalogue: its options.
        source: who was asked, for the user.
        refusals: one a line that was asked: why it is refused, or None.
    """

    catalogue: Catalogue
    source: str
    refusals: list[str | None]


Ask = Callable[[Sequence[Sequence[str]]], Answer]


def installed_python() -> Path | None:
    """The Python of the `vllm` on the PATH."""
    command = shutil.which("vllm")
    if command is None:
        return None
    for folder in (Path(command).parent, Path(command).resolve().parent):
        if (python := folder / "python").exists():
            return python
    return None


def ask_installed(python: Path, lines: Sequence[Sequence[str]]) -> Answer:
    """Asks the vLLM of that Python; takes seconds.

    Raises:
        NoAnswer: it cannot be run, has no vLLM, or its vLLM is too different to be asked.
    """
    command = [str(python), "-c", PROBE.read_text(encoding="utf-8")]
    try:
        done = subprocess.run(  # noqa: S603 - the user names this Python
            command, input=json.dumps(lines), capture_output=True, text=True, timeout=TIMEOUT, cwd="/", check=True
        )
        tree = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1:] or ["no reason"]
        raise NoAnswer(f"{python} has no vLLM that can be asked: {reason[0]}") from None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise NoAnswer(f"{python} cannot be asked: {error}") from None
    catalogue = from_probe(tree["version"], tree["options"])
    return Answer(catalogue, f"vLLM {catalogue.version} of {python}", tree["answers"])


def ask_catalogue(catalogue: Catalogue, lines: Sequence[Sequence[str]]) -> Answer:
    """Asks a parser built from the catalogue: the same names, abbreviations and choices; values less exactly."""
    parser = built(catalogue)
    source = f"the catalogue of vLLM {catalogue.version} (no installed vLLM was asked)"
    return Answer(catalogue, source, [_refusal(parser, words) for words in lines])


class Refused(Exception):
    """What argparse would have printed before ending the process."""


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises."""

    def error(self, message: str) -> NoReturn:
        """Raises Refused."""
        raise Refused(message)


def built(catalogue: Catalogue) -> Parser:
    """A parser with the catalogue's options."""
    parser = Parser(prog="vllm serve", add_help=False)
    for option in catalogue.options:
        if option.switch:
            parser.add_argument(*option.names, action="store_true")
        else:
            read = READERS.get(option.type or "", str)
            parser.add_argument(*option.names, nargs=option.nargs, choices=_choices(option), type=read)
    return parser


def _choices(option: Option) -> list[str] | list[int] | None:
    if option.choices is None:
        return None
    return [int(choice) for choice in option.choices] if option.type == "int" else list(option.choices)


def _refusal(parser: Parser, words: Sequence[str]) -> str | None:
    line: list[str] = []
    for option in options_of(words):
        name, values = spelt(option)
        line += [name, *(["{}"] if has_key(option) else values)]
    try:
        parser.parse_args(line)
    except Refused as refused:
        return str(refused)
    return None


def _count(text: str) -> str:
    if text != "auto" and COUNT.fullmatch(text) is None:
        raise ValueError(f"{text} is no number")
    return text


def _json(text: str) -> object:
    value: object = json.loads(text)
    if not isinstance(value, dict | list):
        raise ValueError("a JSON object is wanted")  # noqa: TRY004 - argparse takes ValueError for "invalid value"
    return value


READERS: dict[str, Callable[[str], object]] = {
    "int": int,
    "float": float,
    "human_readable_int": _count,
    "human_readable_int_or_auto": _count,
    "parse_dataclass": _json,
    "_parse_type": _json,
    "loads": _json,
}
"""What vLLM's functions of these names take; every other value is taken as text."""
