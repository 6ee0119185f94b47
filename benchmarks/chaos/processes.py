"""The gateway and the engines as processes of their own. None outlives this one, whatever becomes of it."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.chaos.asks import BODY_LIMIT, LANES

TOKENLANE = Path(sys.executable).with_name("tokenlane")
MORTAL = Path(__file__).with_name("mortal.py")
POOL, QUEUE, ENGINES_A_LANE = 8, 8, 2
"""Connections to an engine, places in a lane's queue, engines of a lane."""
COMMIT_AFTER = 1.0

SETTINGS: Mapping[str, object] = {
    "timeouts.connect_s": 1,
    "timeouts.first_token_s": 4,
    "timeouts.gap_s": 2.5,
    "timeouts.commit_after_s": COMMIT_AFTER,
    "timeouts.ping_s": 0.5,
    "timeouts.write_deadline_s": 4,
    "limits.body_bytes": BODY_LIMIT,
    "limits.buffer_high_water_bytes": 65536,
    "health.interval_s": 1,
    "server.access_log": "false",
    "server.log_level": "warning",
    "server.shutdown_grace_s": 5,
    **{f"lanes.{lane}.pool_size": POOL for lane in LANES},
    **{f"lanes.{lane}.queue": QUEUE for lane in LANES},
    **{f"lanes.{lane}.patience_s": 2 for lane in LANES},
    "lanes.batch.routing": "round_robin",
}
"""Short times, few places: everything that can be reached in an hour should be reached often."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on, below those that the system gives to clients.

    One of those could be taken by a client while its engine is down, even by the gateway that tries to connect.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randint(12000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports += [port] if port not in ports else []
    return ports


class Program:
    """One `tokenlane` process on a port.

    Args:
        name: names its log too.
        port: it listens on.
        command: arguments of tokenlane.
        folder: where it runs and its log is.
    """

    def __init__(self, name: str, port: int, command: list[str], folder: Path) -> None:
        self.name = name
        self.port = port
        self.log = folder / f"{name}.log"
        self._command = command
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the process; 0 if there is none."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Starts it; returns before it listens."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOKENLANE_")}
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                MORTAL,
                str(os.getpid()),
                TOKENLANE,
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=kept,
            )

    def tell(self, number: signal.Signals) -> None:
        """Sends a signal, if the process is there."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self, patience: float) -> int | None:
        """The exit code; None after `patience` seconds without one, and the process is killed then."""
        if self._process is None:
            return 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                return await self._process.wait()
        self.tell(signal.SIGKILL)
        await self._process.wait()
        return None

    async def get(self, path: str, patience: float = 5.0) -> tuple[int, bytes]:
        """Status and body of a GET; the status is 0 if there is no answer."""
        try:
            async with asyncio.timeout(patience):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
                    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return 0, b""
        return int(head[9:12] or 0), body

    async def restart(self, patience: float = 60.0) -> None:
        """Starts it anew, again if it ends at once, and returns when it is well; raises TimeoutError."""
        async with asyncio.timeout(patience):
            while (await self.get("/health", 1.0))[0] != 200:
                if self._process is None or self._process.returncode is not None:
                    await self.start()
                await asyncio.sleep(0.1)

    async def until(self, path: str, patience: float = 60.0) -> None:
        """Returns when GET `path` gives 200; raises TimeoutError."""
        async with asyncio.timeout(patience):
            while (await self.get(path, 1.0))[0] != 200:  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.05)


def engine(name: str, port: int, folder: Path) -> Program:
    """A simulated engine. Its pace is a matter of each request."""
    return Program(name, port, ["sim", "--port", str(port), "--jitter", "0.3", "--tokens", "60"], folder)


def gateway(engines: Mapping[str, list[Program]], port: int, folder: Path) -> Program:
    """A gateway in front of the engines of each lane."""
    settings = dict(SETTINGS)
    for lane, programs in engines.items():
        urls = [{"url": f"http://127.0.0.1:{each.port}", "name": each.name, "kind": "sim"} for each in programs]
        settings[f"lanes.{lane}.engines"] = json.dumps(urls)
    given = [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]
    return Program("gateway", port, ["serve", "--port", str(port), *given], folder)
