"""What processes use, as Linux tells in /proc."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Meter:
    """The processes below one: all that it started, and what they started, but not itself."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def pids(self) -> set[int]:
        """Their numbers."""
        return below(self._pid, _parents())

    def cpu(self) -> float:
        """Seconds of CPU that they have used, and those that they have waited for."""
        return sum(map(_cpu, self.pids()))

    def memory(self) -> int:
        """Bytes of memory that they hold; what several share counts several times."""
        return sum(map(_resident, self.pids()))


def machine() -> float:
    """Seconds of CPU that the whole machine has used: user to softirq, without idle and what is not ours."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    idle, waiting = fields[3:5]
    return (sum(fields[:7]) - idle - waiting) / TICKS


def below(pid: int, parents: Mapping[int, int]) -> set[int]:
    """All processes that descend from one; `parents` has each one's parent."""
    members: set[int] = set()
    newest = {pid}
    while newest := {child for child, parent in parents.items() if parent in newest} - members:
        members |= newest
    return members


def cpu_of(stat: str, on_cpu: int) -> float:
    """Seconds from the text of `stat`, counted in ticks, and nanoseconds of the living threads, which are exact."""
    fields = stat.rpartition(")")[2].split()
    own, waited_for = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return max(own / TICKS, on_cpu / 1e9) + waited_for / TICKS


def _cpu(pid: int) -> float:
    folder = Path(f"/proc/{pid}")
    on_cpu = 0
    for thread in folder.glob("task/*/schedstat"):
        with suppress(OSError):  # it has ended meanwhile
            on_cpu += int(thread.read_text().split()[0])
    try:
        return cpu_of((folder / "stat").read_text(), on_cpu)
    except OSError:
        return 0.0


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


def _parents() -> dict[int, int]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return found
