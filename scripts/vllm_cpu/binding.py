"""Which CPUs each engine computes on.

Left alone, every vLLM on a machine binds its threads to the same first cores and the engines fight for them. Here the
cores are dealt out: one logical CPU a physical core, as vLLM does it, and disjoint sets for the engines.
"""

from collections.abc import Sequence
from pathlib import Path

MOST = 8
"""Cores an engine gets at most: a model this small gains nothing from more."""

TOPOLOGY = Path("/sys/devices/system/cpu")


def deal(cores: Sequence[Sequence[int]], engines: int) -> list[list[int]]:
    """The CPUs of each engine.

    Args:
        cores: the logical CPUs of each physical core that may be used.
        engines: how many share them.

    Returns:
        One list an engine; disjoint as long as there are CPUs enough. Where one can be spared, the last core is left
        to the HTTP servers and the gateway.
    """
    if len(cores) < engines:
        threads = [cpu for core in cores for cpu in core]
        return [threads[i::engines] or threads for i in range(engines)]
    first = [core[0] for core in cores]
    usable = first[:-1] if len(first) > engines else first
    return [usable[i::engines][:MOST] for i in range(engines)]


def physical_cores(cpus: set[int], topology: Path = TOPOLOGY) -> list[list[int]]:
    """The logical CPUs of each physical core, of those in `cpus`; each one its own core where nothing is known."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        siblings = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        key = siblings.read_text().strip() if siblings.is_file() else str(cpu)
        cores.setdefault(key, []).append(cpu)
    return list(cores.values())


def as_bind(cpus: Sequence[int]) -> str:
    """The value of VLLM_CPU_OMP_THREADS_BIND."""
    return ",".join(map(str, cpus))
