"""A real nginx with the project's own configuration, from a folder of its own, and the resolver it asks."""

import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "nginx"
VARIABLE = re.compile(r"\$\{(TOKENLANE_[A-Z_]+)\}")
SECONDS = 30
"""Within which a process has to have started."""


class Resolver:
    """A DNS server that knows one name, whose address can change.

    Attributes:
        address: of the name; None: there is no such name.
        name: where it listens, as nginx's `resolver` takes it.
    """

    def __init__(self) -> None:
        self.address: str | None = None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            if not query:
                return
            self._socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        question = query[12 : query.index(b"\0", 12) + 5]
        found = self.address is not None
        head = query[:2] + struct.pack("!HHHHH", 0x8180 if found else 0x8183, 1, int(found), 0, 0)
        if self.address is None:
            return head + question
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(self.address)
        return head + question + record

    def close(self) -> None:
        """Ends the thread."""
        own = self._socket.getsockname()
        self._socket.sendto(b"", own)
        self._thread.join()
        self._socket.close()


def free_port() -> int:
    """A port that nobody listens on now, on any loopback address."""
    with closing(socket.socket()) as probe:
        probe.bind(("0.0.0.0", 0))
        port: int = probe.getsockname()[1]
        return port


def filled(text: str, variables: dict[str, str]) -> str:
    """A template with its variables; KeyError for one that is not given."""
    return VARIABLE.sub(lambda match: variables[match[1]], text)


def written(folder: Path, variables: dict[str, str]) -> Path:
    """The configuration in `folder`, as the image makes it from the templates; returns the main file."""
    templates = SOURCE / "templates"
    for template in templates.rglob("*.template"):
        target = folder / template.relative_to(templates).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_moved(filled(template.read_text(), variables), folder))
    main = folder / "nginx.conf"
    main.write_text(_moved((SOURCE / "nginx.conf").read_text(), folder))
    return main


def _moved(text: str, folder: Path) -> str:
    """The same with every path of the image inside `folder`."""
    places = {"/dev/stdout": "access.log", "/dev/stderr": "error.log", "/tmp": "."}  # noqa: S108
    return re.sub("|".join(places), lambda match: str(folder / places[match[0]]), text)


@contextmanager
def running_nginx(folder: Path, resolver: Resolver, gateway_port: int, **changes: str) -> Iterator[str]:
    """A proxy for as long as the block lasts; yields its URL."""
    port = free_port()
    variables = {
        "TOKENLANE_NGINX_PORT": f"127.0.0.1:{port}",
        "TOKENLANE_GATEWAY": f"gateway.test:{gateway_port}",
        "TOKENLANE_RESOLVER": resolver.name,
        "TOKENLANE_RESOLVER_VALID": "1s",
        "TOKENLANE_NGINX_BODY_LIMIT": str(20 * 1024 * 1024),
        "TOKENLANE_NGINX_KEEPALIVE": "75s",
        "TOKENLANE_NGINX_READ_TIMEOUT": "3s",
    }
    main = written(folder, variables | changes)
    user = " user root;" if os.geteuid() == 0 else ""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    process = subprocess.Popen(
        [program, "-p", folder, "-c", main, "-g", f"daemon off;{user}"], stderr=subprocess.DEVNULL
    )
    try:
        wait_for("127.0.0.1", port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(SECONDS)


def wait_for(host: str, port: int, process: "subprocess.Popen[bytes]") -> None:
    """Returns when something listens; fails when the process has ended or it takes too long."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "the process has ended"
        with closing(socket.socket()) as probe:
            if probe.connect_ex((host, port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens on {host}:{port}")
