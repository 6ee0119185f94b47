"""One vLLM: its command line, its environment variables, and whether it is up."""

import asyncio
import itertools
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from binding import as_bind
from once import variables

KV_CACHE_GIB = 1
GRACE = 5.0
"""Seconds an engine has to end. It needs one or two; with streams open it may wait for ever."""

FLAGS = (
    *("--served-model-name", "smollm2", "--host", "127.0.0.1"),
    *("--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", "32"),
    *("--enforce-eager",),  # compiling takes three minutes at every start and gains a quarter in speed
    *("--enable-prefix-caching",),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine to be started on 127.0.0.1.

    Args:
        name: of its lane; names its log too.
        port: it listens on.
        cpus: it computes on.
    """

    name: str
    port: int
    cpus: tuple[int, ...]

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def command(self, python: Path, model: Path) -> list[str | Path]:
        """The command line that serves `model` in the environment of `python`."""
        return [python.with_name("vllm"), "serve", model, "--port", str(self.port), *FLAGS]

    def variables(self, cache: Path, scratch: Path) -> dict[str, str]:
        """Its environment variables: nothing is asked of the network.

        Args:
            cache: folder for compiled code.
            scratch: folder for sockets; a short path, for they have 107 bytes.
        """
        return variables(
            HF_HUB_OFFLINE="1",
            TRANSFORMERS_OFFLINE="1",
            VLLM_NO_USAGE_STATS="1",
            DO_NOT_TRACK="1",
            TMPDIR=str(scratch),
            VLLM_HOST_IP="127.0.0.1",  # else its processes talk over the address of the network card
            VLLM_CPU_KVCACHE_SPACE=str(KV_CACHE_GIB),
            VLLM_CPU_OMP_THREADS_BIND=as_bind(self.cpus),
            VLLM_CACHE_ROOT=str(cache / "compiled" / "vllm"),
            TORCHINDUCTOR_CACHE_DIR=str(cache / "compiled" / "inductor"),
        )


async def healthy(url: str) -> None:
    """Return as soon as GET `url` answers 200, however long that takes."""
    for pause in itertools.repeat(0.5):
        if await asyncio.to_thread(_answers, url):
            return
        await asyncio.sleep(pause)


def _answers(url: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
