"""What the gateway holds, seen from outside: its metrics and its process."""

import re
from pathlib import Path

from benchmarks.chaos.processes import Program

_LINE = re.compile(r"^([a-z_:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
Metrics = list[tuple[str, str, float]]
"""Name, labels, value."""


def rss_mib(pid: int) -> float:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def sockets(pid: int) -> int:
    """The sockets that a process holds."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += str(descriptor.readlink()).startswith("socket:")
        except FileNotFoundError:  # closed meanwhile
            continue
    return count


async def metrics_of(program: Program) -> Metrics:
    """The metrics of a program; none if it does not answer."""
    _, body = await program.get("/metrics")
    return [(name, labels, float(value)) for name, labels, value in _LINE.findall(body.decode())]


async def held(gateway: Program) -> dict[str, int]:
    """Slots and places in queues that are taken now.

    Raises:
        ValueError: the gateway does not say.
    """
    metrics = await metrics_of(gateway)
    if not metrics:
        raise ValueError("the gateway gives no metrics")
    return {what: _sum(metrics, f"tokenlane_{name}") for what, name in (("slots", "running"), ("waiting", "waiting"))}


async def generating(engines: list[Program]) -> int:
    """Requests that the engines work on or have waiting."""
    pages = [await metrics_of(engine) for engine in engines]
    return sum(_sum(page, f"vllm:num_requests_{what}") for page in pages for what in ("running", "waiting"))


async def out_of_service(gateway: Program) -> list[str]:
    """The labels of the engines that the gateway does not ask now."""
    return [labels for name, labels, value in await metrics_of(gateway) if name == "tokenlane_engine_up" and not value]


def _sum(metrics: Metrics, wanted: str) -> int:
    return int(sum(value for name, _, value in metrics if name == wanted))
