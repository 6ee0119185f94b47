"""A real PostgreSQL for a test: an ordinary process in a folder of its own, on a free port of the loopback address."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 30
"""Within which it has to have started."""


def binaries() -> Path | None:
    """Debian's newest installation, or whatever is on the path; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@contextlib.contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """The URL of an empty database, for as long as the block lasts."""
    server = Postgres(folder)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


class Postgres:
    """A server in a folder, made with it.

    Attributes:
        url: of its database.
    """

    def __init__(self, folder: Path) -> None:
        found = binaries()
        assert found is not None, "postgresql is not installed"
        self._programs, self._folder, self._user = found, folder, _unprivileged()
        self._server: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            _open_up(folder, self._user)
        options = ["-U", "test", "-A", "trust", "-E", "UTF8", "--no-sync"]
        command = [found / "initdb", "-D", folder / "data", *options]
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd=folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"postgresql://test@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Returns when it answers."""
        options = ["-p", str(self._port), "-k", self._folder, "-h", "127.0.0.1", "-c", "fsync=off"]
        command = [self._programs / "postgres", "-D", self._folder / "data", *options]
        self._server = subprocess.Popen(command, user=self._user, cwd=self._folder, stderr=subprocess.DEVNULL)
        _wait(self._server, self._port)

    def stop(self) -> None:
        """Ends it at once, with every connection to it (PostgreSQL's fast shutdown)."""
        assert self._server is not None
        self._server.send_signal(signal.SIGINT)
        self._server.wait()


def _unprivileged() -> str | None:
    """Whom it runs as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise AssertionError("there is no user to run PostgreSQL as")


def _open_up(folder: Path, user: str) -> None:
    """Gives the folder to the user, and lets it through the folders above, which pytest keeps to itself."""
    shutil.chown(folder, user)
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid() and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)


def _wait(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert server.poll() is None, "PostgreSQL has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"\0\0\0\x08\x04\xd2\x16\x2f")  # an SSLRequest: answered as soon as it serves
            if connection.recv(1):
                return
        time.sleep(0.05)
    raise AssertionError("PostgreSQL does not answer")
