"""The engines, one a lane, and the gateway in front of them, as long as all of them live."""

import asyncio
import json
import os
import socket
import sys
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from binding import deal, physical_cores
from child import Child, running, while_alive
from engine import GRACE, Engine, healthy

GATEWAY_GRACE = 60.0
"""Seconds the gateway has to let its streams finish; its own settings end it sooner."""
LOGS_KEPT = 10

SHORT_WARM_UP = {
    "TOKENLANE_WARMUP__CONCURRENCY": "4",
    "TOKENLANE_WARMUP__PROMPT_TOKENS": "[16]",
    "TOKENLANE_WARMUP__LONGEST_PROMPT": "0",
}
"""Enough for engines that compile nothing for a batch's size, and read some thousand tokens a second."""

GREETING = """
tokenlane serves real vLLM on {address}  (Ctrl-C stops it)

  curl -N {address}/v1/chat/completions -H 'Content-Type: application/json' -H 'X-Tokenlane-Lane: lowlatency' \\
    -d '{{"model": "smollm2", "stream": true, "messages": [{{"role": "user", "content": "Say hello."}}]}}'
"""


class PortTaken(Exception):
    """A port that was asked for is in use."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start, where.

    Args:
        cache: folder for logs and compiled code.
        python: of the environment of vLLM.
        model: folder of the model.
    """

    cache: Path
    python: Path
    model: Path

    async def serve(self, lanes: dict[str, Engine], gateway_port: int | None) -> None:
        """Start and keep everything; ends by cancellation or with `ChildEnded`, and leaves nothing running.

        Args:
            lanes: the engine of each lane; the same one twice is started once.
            gateway_port: None: no gateway, but a line of JSON on standard output when the engines are ready.
        """
        urls = {lane: engine.url for lane, engine in lanes.items()}
        async with AsyncExitStack() as stack:
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="tokenlane-")))
            engines = [self._engine(engine, scratch) for engine in dict.fromkeys(lanes.values())]
            children = [await stack.enter_async_context(engine) for engine in engines]
            for child in children:
                stack.callback(child.ask_to_stop)  # all of them, before the first is waited for
            await while_alive(children, ready("the engines", [f"{url}/health" for url in urls.values()]))
            if gateway_port is None:
                print(json.dumps(urls), flush=True)
            else:
                address = f"http://127.0.0.1:{gateway_port}"
                children.append(await stack.enter_async_context(gateway(gateway_port, urls)))
                await while_alive(children, ready("the gateway", [f"{address}/ready"]))
                say(GREETING.format(address=address))
            await while_alive(children, asyncio.Event().wait())

    def _engine(self, engine: Engine, scratch: Path) -> AbstractAsyncContextManager[Child]:
        logs = self.cache / "logs"
        logs.mkdir(exist_ok=True)
        for old in sorted(logs.iterdir(), key=lambda path: path.stat().st_mtime)[:-LOGS_KEPT]:
            old.unlink(missing_ok=True)
        log = logs / f"{engine.name}-{engine.port}.log"
        say(f"starting vLLM for lane {engine.name} on {engine.url}, CPUs {engine.cpus}, log {log}")
        command, variables = engine.command(self.python, self.model), engine.variables(self.cache, scratch)
        return running(engine.name, command, grace=GRACE, variables=variables, log=log)


def plan(ports: dict[str, int], *, one_engine: bool) -> dict[str, Engine]:
    """The engine of each lane.

    Args:
        ports: of each lane's engine; 0: a free one.
        one_engine: the first lane's serves all.
    """
    cores = physical_cores(os.sched_getaffinity(0))
    if one_engine:
        first = next(iter(ports))
        return dict.fromkeys(ports, Engine(first, free_port(ports[first]), tuple(deal(cores, 1)[0])))
    shares = deal(cores, len(ports))
    return {
        lane: Engine(lane, free_port(port), tuple(cpus))
        for (lane, port), cpus in zip(ports.items(), shares, strict=True)
    }


def free_port(wanted: int) -> int:
    """`wanted`, or any for 0, if it is free on the loopback address; else raises `PortTaken`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise PortTaken(f"port {wanted}: {error.strerror}") from error
        return int(probe.getsockname()[1])


def gateway(port: int, urls: dict[str, str]) -> AbstractAsyncContextManager[Child]:
    """The gateway of this environment, with the engine of each lane in `urls`."""
    lanes = {f"TOKENLANE_LANES__{lane.upper()}__ENGINES": json.dumps([url]) for lane, url in urls.items()}
    command = [Path(sys.executable).with_name("tokenlane"), "serve", "--host", "127.0.0.1", "--port", str(port)]
    return running("the gateway", command, grace=GATEWAY_GRACE, variables=SHORT_WARM_UP | os.environ | lanes)


async def ready(who: str, urls: list[str]) -> None:
    """Wait until all `urls` answer 200, and say every ten seconds that it still takes."""
    began = time.monotonic()
    waiting = asyncio.gather(*(healthy(url) for url in urls))
    while not (await asyncio.wait([waiting], timeout=10))[0]:
        say(f"waiting for {who} ({time.monotonic() - began:.0f} s)")
    say(f"ready: {who}, after {time.monotonic() - began:.0f} s")


def say(line: str) -> None:
    """A line for the user; standard output is for what a program reads."""
    print(line, file=sys.stderr, flush=True)
