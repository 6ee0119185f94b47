"""Building a folder once, whoever asks, and again when it was interrupted or its recipe has changed.

A folder is whole when its marker, written last, holds the recipe's digest. A lock keeps two builders apart; the
commands of a build inherit it, so that one that outlives its builder still keeps the next one waiting.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

MARKER = ".complete"
NOT_FOR_IT = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"})
"""Variables that are about another Python. Bytecode is to be written: else vLLM is compiled again at each start."""


class Run(Protocol):
    """Runs one command of a build."""

    def __call__(self, command: Sequence[str | Path], *, cwd: Path) -> None:
        """Run `command` in `cwd`; raises `subprocess.CalledProcessError` when it fails."""


def digest(*parts: bytes) -> str:
    """A digest of a recipe: its files and whatever else makes a difference to the outcome."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_whole(folder: Path, recipe: str) -> bool:
    """Whether `folder` was built to its end by `recipe`."""
    marker = folder / MARKER
    return marker.is_file() and marker.read_text() == recipe


def build_once(folder: Path, recipe: str, build: Callable[[Run], None]) -> bool:
    """Call `build` unless `folder` is whole; says whether it did.

    Args:
        folder: what `build` makes; removed before, should anything lie there.
        recipe: see `digest`.
        build: makes `folder`, with the runner that it is given. What it raises passes through.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(folder.name + ".lock")) as run:
        if is_whole(folder, recipe):
            return False
        if folder.exists():
            shutil.rmtree(folder)
        build(run)
        (folder / MARKER).write_text(recipe)
    return True


def variables(**more: str) -> dict[str, str]:
    """The environment variables of a command that runs in what was built: this process's own and `more`."""
    return {name: value for name, value in os.environ.items() if name not in NOT_FOR_IT} | more


@contextmanager
def _locked(path: Path) -> Iterator[Run]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process to finish with {path.parent} ...", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)

        def run(command: Sequence[str | Path], *, cwd: Path) -> None:
            subprocess.run(command, cwd=cwd, env=variables(), stdout=sys.stderr, check=True, pass_fds=[lock.fileno()])

        yield run
