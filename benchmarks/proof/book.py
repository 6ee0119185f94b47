"""Results as they come: each is written to a file at once, so that nothing measured is lost."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
SECTIONS = (
    "engines", "bursts", "rows", "lanes", "compare", "interval", "pools", "arrivals", "baseline", "batch", "restarts",
    "problems",
)  # fmt: skip
"""Lists that a book may have; which entries each holds is told where they are measured."""

_BEGAN = time.monotonic()


def say(line: str) -> None:
    """A line with the time of day and the seconds since this process began."""
    print(f"{time.strftime('%H:%M:%S')} +{time.monotonic() - _BEGAN:4.0f} s  {line}", flush=True)


class Stamped:
    """A stream for `Progress`: whole lines, each with the time."""

    def isatty(self) -> bool:
        return False

    def flush(self) -> None:
        return

    def write(self, text: str) -> int:
        for line in text.splitlines():
            say(line)
        return len(text)


class Book:
    """A result that grows.

    Args:
        file: written after each entry.
        about: what it begins with: facts of the machine and of what was asked for.
    """

    def __init__(self, file: Path, about: Mapping[str, Any]) -> None:
        self.tree: dict[str, Any] = {"format": FORMAT, "kind": "proof", **about}
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def add(self, section: str, entry: Mapping[str, Any]) -> None:
        """Adds an entry to a list."""
        self.tree.setdefault(section, []).append(slim(dict(entry)))
        self._write()

    def problem(self, where: str, what: object) -> None:
        """Notes what went wrong, and says it."""
        say(f"PROBLEM in {where}: {what}")
        self.add("problems", {"where": where, "what": str(what)})

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self.tree, indent=1) + "\n", encoding="utf-8")
        fresh.rename(self._file)


def merged(files: Iterable[Path], about: Mapping[str, Any]) -> dict[str, Any]:
    """The books of several processes as one, in their order."""
    tree: dict[str, Any] = {"format": FORMAT, "kind": "proof", **about}
    for file in files:
        one = json.loads(file.read_text(encoding="utf-8"))
        for section in SECTIONS:
            if section in one:
                tree.setdefault(section, []).extend(one[section])
    return tree


def slim(value: Any) -> Any:
    """The same without curves: a percentile of a percentile is nobody's figure."""
    if isinstance(value, dict):
        return {name: slim(item) for name, item in value.items() if name != "curve"}
    if isinstance(value, list | tuple):
        return [slim(item) for item in value]
    return value
