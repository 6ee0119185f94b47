"""The options of `vllm serve` of one version, and what became of options and values that are gone.

`options.json` is written by `tokenlane engine catalogue` from vLLM's own parser; `gone.toml` is written by hand.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OPTIONS = FOLDER / "options.json"
GONE = FOLDER / "gone.toml"


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Args:
        names: its spellings, `--tensor-parallel-size` and `-tp`.
        switch: it takes no value.
        nargs: argparse's, where it is not one value: `+`, `?`.
        choices: the values it takes; None: any that `type` reads.
        type: the name of the function that reads a value in vLLM.
    """

    names: tuple[str, ...]
    switch: bool
    nargs: str | int | None
    choices: tuple[str, ...] | None
    type: str | None

    @property
    def name(self) -> str:
        """The spelling that stands for all: the last long one that does not negate."""
        long = [name for name in self.names if name.startswith("--") and not name.startswith("--no-")]
        return (long or list(self.names))[-1]


@dataclass(frozen=True)
class Catalogue:
    """Every option of one version."""

    version: str
    options: tuple[Option, ...]

    @cached_property
    def by_name(self) -> dict[str, Option]:
        """Every spelling -> its option."""
        return {name: option for option in self.options for name in option.names}

    def starting_with(self, prefix: str) -> list[str]:
        """The spellings that argparse may take `prefix` for."""
        return [name for name in self.by_name if name.startswith(prefix)]


@dataclass(frozen=True, slots=True)
class Gone:
    """What became of an option or a value.

    Args:
        successor: what to say instead; empty: nothing.
        why: what happened, for the user.
    """

    successor: str
    why: str


@dataclass(frozen=True, slots=True)
class History:
    """Options and values of older versions: option -> `Gone`, and option -> value -> `Gone`."""

    options: dict[str, Gone]
    values: dict[str, dict[str, Gone]]


def from_probe(version: str, options: Iterable[dict[str, Any]]) -> Catalogue:
    """The catalogue in the answer of `probe.py`."""
    return Catalogue(
        version,
        tuple(
            Option(
                tuple(item["names"]),
                item["switch"],
                item["nargs"],
                tuple(item["choices"]) if item["choices"] is not None else None,
                item["type"],
            )
            for item in options
        ),
    )


def recorded() -> Catalogue:
    """The catalogue that comes with this package."""
    tree = json.loads(OPTIONS.read_text(encoding="utf-8"))
    return from_probe(tree["version"], tree["options"])


def as_json(catalogue: Catalogue) -> str:
    """What `options.json` holds: one option a line."""
    rows = [
        json.dumps({"names": o.names, "switch": o.switch, "nargs": o.nargs, "choices": o.choices, "type": o.type})
        for o in catalogue.options
    ]
    return f'{{"version": {json.dumps(catalogue.version)}, "options": [\n' + ",\n".join(rows) + "\n]}\n"


def history() -> History:
    """What became of what is gone."""
    tree = tomllib.loads(GONE.read_text(encoding="utf-8"))
    options = {name: Gone(**entry) for name, entry in tree["options"].items()}
    values = {name: {v: Gone(**entry) for v, entry in table.items()} for name, table in tree["values"].items()}
    return History(options, values)
