"""Debian's redis-server as a process of the test, on a free port, with nothing on disk."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SERVER = shutil.which("redis-server")


def free_port() -> int:
    """A port that was free just now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def running_redis(folder: Path, port: int | None = None) -> Iterator[str]:
    """The URL of a Redis for as long as the block lasts."""
    assert SERVER is not None, "needs redis-server"
    chosen = port or free_port()
    options = ["--port", str(chosen), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen([SERVER, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _answers(chosen)
        yield f"redis://127.0.0.1:{chosen}/0"
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> None:
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.05) as connection:
            connection.sendall(b"PING\r\n")
            if connection.recv(16).startswith(b"+PONG"):
                return
        time.sleep(0.02)
    raise AssertionError("redis-server does not answer")
