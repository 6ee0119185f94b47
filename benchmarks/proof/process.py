"""Processes that do not outlive this one: each has a guard that ends its whole group when our pipe to it closes."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUARD = ROOT / "scripts" / "vllm_cpu" / "guard.py"
TOKENLANE = (sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())")
"""The command line of this tree, installed or not."""
TICKS = os.sysconf("SC_CLK_TCK")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ProcessFailed(Exception):
    """A process ended by itself or was not ready in time; the message has the end of its log."""


class Process:
    """A running process; `running` makes one.

    Attributes:
        name: for messages.
        log: file with all that it prints.
    """

    def __init__(self, name: str, log: Path, guard: "subprocess.Popen[bytes]") -> None:
        self.name = name
        self.log = log
        self._guard = guard

    def until_ready(self, url: str, patience: float) -> float:
        """Waits until GET `url` answers 200; returns the seconds that took.

        Raises:
            ProcessFailed: it ended, or `patience` seconds have passed.
        """
        began = time.monotonic()
        while not answers(url):
            if self._guard.poll() is not None:
                raise ProcessFailed(f"{self.name} ended with {self._guard.returncode}: {self.tail()}")
            if time.monotonic() - began > patience:
                raise ProcessFailed(f"{self.name} was not ready after {patience:.0f} s: {self.tail()}")
            time.sleep(0.25)
        return time.monotonic() - began

    def tail(self, lines: int = 12) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def cpu_seconds(self) -> float:
        """CPU that the process and its living children have used."""
        parents = _parents()
        members = {self._guard.pid}
        while more := {pid for pid, parent in parents.items() if parent in members} - members:
            members |= more
        return sum(_cpu_seconds(pid) for pid in members)

    def end(self, number: signal.Signals, patience: float) -> float:
        """Sends a signal to the process itself and waits until it has ended; returns the seconds that took.

        Raises:
            ProcessFailed: it has ended before, or lives after `patience` seconds.
        """
        began = time.monotonic()
        leaders = [pid for pid, parent in _parents().items() if parent == self._guard.pid and os.getsid(pid) == pid]
        if not leaders:
            raise ProcessFailed(f"{self.name} has ended already: {self.tail()}")
        os.kill(leaders[0], number)
        try:
            self._guard.wait(patience)
        except subprocess.TimeoutExpired as error:
            raise ProcessFailed(f"{self.name} lives {patience:.0f} s after {number.name}: {self.tail()}") from error
        return time.monotonic() - began

    def stop(self, grace: float) -> None:
        """Ends it and waits; the guard kills what is left after its grace."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(grace + 15)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait(5)


@contextmanager
def running(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    variables: Mapping[str, str] | None = None,
    cpus: Sequence[int] = (),
    grace: float = 10,
) -> Iterator[Process]:
    """A process for as long as the block lasts.

    Args:
        name: for messages.
        command: to run, in the folder of its log.
        log: file for what it prints.
        variables: its whole environment; None: ours.
        cpus: CPUs that it may use; none: all.
        grace: seconds between being asked to stop and being killed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    guarded = [sys.executable, "-I", str(GUARD), str(grace), *pinned(cpus), *map(str, command)]
    with log.open("wb") as output:
        output.write(f"$ {shlex.join(map(str, command))}\n".encode())
        output.flush()
        guard = subprocess.Popen(
            guarded, stdin=subprocess.PIPE, stdout=output, stderr=output, env=variables, cwd=log.parent
        )
    process = Process(name, log, guard)
    try:
        yield process
    finally:
        process.stop(grace)


def pinned(cpus: Sequence[int]) -> list[str]:
    """The words before a command that bind it to CPUs."""
    return ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []


def own_variables(**more: str) -> dict[str, str]:
    """Our environment for another process of this tree: no settings of the gateway, this tree importable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOKENLANE_")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | more


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """Whether GET `url` gives 200 within two seconds."""
    try:
        with _OPENER.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def text_of(url: str, patience: float = 10) -> str:
    """The body of GET `url`; empty where there is none."""
    try:
        with _OPENER.open(url, timeout=patience) as response:
            return str(response.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def metric(url: str, name: str) -> float | None:
    """The sum of an engine's metric over its labels; None where it has none of that name."""
    lines = [line for line in text_of(f"{url}/metrics").splitlines() if line.startswith((name + "{", name + " "))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines) if lines else None


def model_at(url: str) -> str:
    """The first model that a server names."""
    return str(json.loads(text_of(f"{url}/v1/models"))["data"][0]["id"])


def _parents() -> dict[int, int]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
    return found


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
