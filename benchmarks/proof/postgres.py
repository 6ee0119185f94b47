"""A PostgreSQL of its own, as Debian or whatever is on the path has it."""

import contextlib
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.proof.process import Process, ProcessFailed, free_port, running

READY = 30
"""Seconds in which it has to serve."""


@contextlib.contextmanager
def postgres(folder: Path, log: Path) -> Iterator[str]:
    """The URL of an empty database, for as long as the block lasts.

    Args:
        folder: that does not exist yet, where everybody may pass through what is above it.
        log: file for what it prints.

    Raises:
        ProcessFailed: it is not installed, or does not start.
        subprocess.CalledProcessError: its files cannot be made.
    """
    programs, user = _programs(), _unprivileged()
    folder.mkdir(parents=True)
    if user is not None:
        shutil.chown(folder, user)
    making: list[str | Path] = [
        programs / "initdb",
        "-D",
        folder / "data",
        "-U",
        "proof",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    subprocess.run([*_as(user), *making], check=True, capture_output=True, cwd=folder, timeout=60)
    port = free_port()
    command: list[str | Path] = [
        programs / "postgres",
        "-D",
        folder / "data",
        "-p",
        str(port),
        "-k",
        folder,
        "-h",
        "127.0.0.1",
    ]
    with running("PostgreSQL", [*_as(user), *command], log=log) as server:
        _until_it_serves([*_as(user), programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], server)
        yield f"postgresql://proof@127.0.0.1:{port}/postgres"


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        raise ProcessFailed("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1].parent if found else Path(str(on_path)).parent


def _unprivileged() -> str | None:
    """Whom it runs as: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ProcessFailed("there is no user to run PostgreSQL as")


def _as(user: str | None) -> list[str | Path]:
    return ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []


def _until_it_serves(asking: list[str | Path], server: Process) -> None:
    end = time.monotonic() + READY
    while subprocess.run(asking, check=False, capture_output=True, timeout=10).returncode != 0:
        if time.monotonic() > end:
            raise ProcessFailed(f"PostgreSQL does not serve after {READY} s: {server.tail()}")
        time.sleep(0.1)
