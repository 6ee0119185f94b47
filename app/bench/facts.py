"""What a result has to say of how it came about: machine, versions, commit, command line."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.bench.target import shown

_ROOT = Path(__file__).parents[2]
_HEADERS = ("--header", "--a-header", "--b-header")


def facts(command: Sequence[str]) -> dict[str, Any]:
    """The facts; `command` is the command line, values of headers in it are masked."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(masked(command)),
        "machine": {
            "system": platform.platform(),
            "cpu": cpu_model(),
            "cpus": os.cpu_count(),
            "cpus_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "load_before": [round(value, 2) for value in os.getloadavg()],
        },
        "versions": {
            "tokenlane": version("tokenlane"),
            "python": platform.python_version(),
            "uvloop": version("uvloop"),
            "httptools": version("httptools"),
        },
        "commit": commit(),
    }


def masked(command: Sequence[str]) -> list[str]:
    """A command line without the values of headers that may be secret."""
    out: list[str] = []
    for word in command:
        option, sign, value = word.partition("=")
        if out and out[-1] in _HEADERS:
            out.append(_masked(word))
        elif option in _HEADERS and sign:
            out.append(f"{option}={_masked(value)}")
        else:
            out.append(word)
    return out


def cpu_model() -> str:
    """The name of the processor, as far as the system tells."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str | None:
    """The commit of this source tree, with a `+` if tracked files differ from it; None outside of a checkout."""
    if not (_ROOT / ".git").exists():
        return None
    try:
        found = _git("rev-parse", "--short=12", "HEAD")
        return found + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603


def _masked(pair: str) -> str:
    name, sign, value = pair.partition("=")
    return f"{name}{sign}{shown(name, value)}"
