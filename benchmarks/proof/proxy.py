"""A real nginx with the project's own configuration, or with a part of it changed."""

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.proof.process import ROOT, Process, ProcessFailed, free_port, running

SOURCE = ROOT / "nginx"
VARIABLE = re.compile(r"\$\{(TOKENLANE_[A-Z_]+)\}")
BUFFERED = {"proxy_buffering off;": "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"}
"""nginx's own default, which the header of an upstream would switch off."""
UNTOLD = {"proxy_buffering off;": "", "proxy_http_version 1.1;": "", 'proxy_set_header Connection "";': ""}
"""nginx as it is when nobody has told it of streams: it asks in HTTP/1.0 and buffers."""
READY = 15


@contextmanager
def nginx(folder: Path, upstream_port: int, changes: Mapping[str, str]) -> Iterator[str]:
    """A proxy in front of a port of this machine, for as long as the block lasts; yields its URL.

    Args:
        folder: for its configuration and logs.
        upstream_port: whom it asks.
        changes: text of the configuration -> what stands there instead.

    Raises:
        ProcessFailed: there is no nginx, or it does not start.
    """
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    port = free_port()
    main = _written(folder, _variables(port, upstream_port), changes)
    user = " user root;" if os.geteuid() == 0 else ""
    command: list[str | Path] = [program, "-p", folder, "-c", main, "-g", f"daemon off;{user}"]
    with running("nginx", command, log=folder / "nginx.log") as process:
        _until_it_listens(process, port)
        yield f"http://127.0.0.1:{port}"


def _variables(port: int, upstream_port: int) -> dict[str, str]:
    return {
        "TOKENLANE_NGINX_PORT": f"127.0.0.1:{port}",
        "TOKENLANE_GATEWAY": f"127.0.0.1:{upstream_port}",
        "TOKENLANE_RESOLVER": "127.0.0.1",
        "TOKENLANE_RESOLVER_VALID": "5s",
        "TOKENLANE_NGINX_BODY_LIMIT": str(20 * 1024 * 1024),
        "TOKENLANE_NGINX_KEEPALIVE": "75s",
        "TOKENLANE_NGINX_READ_TIMEOUT": "600s",
    }


def _written(folder: Path, variables: Mapping[str, str], changes: Mapping[str, str]) -> Path:
    """The configuration with all its paths inside `folder`; returns the main file."""
    templates = SOURCE / "templates"
    for template in templates.rglob("*.template"):
        target = folder / template.relative_to(templates).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = VARIABLE.sub(lambda match: variables[match[1]], template.read_text())
        for old, new in changes.items():
            text = text.replace(old, new)
        target.write_text(_moved(text, folder))
    main = folder / "nginx.conf"
    main.write_text(_moved((SOURCE / "nginx.conf").read_text(), folder))
    return main


def _moved(text: str, folder: Path) -> str:
    places = {"/dev/stdout": "access.log", "/dev/stderr": "error.log", "/tmp": "."}  # noqa: S108 - the image's paths
    return re.sub("|".join(places), lambda match: str(folder / places[match[0]]), text)


def _until_it_listens(process: Process, port: int) -> None:
    end = time.monotonic() + READY
    while time.monotonic() < end:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise ProcessFailed(f"nginx does not listen: {process.tail()}")
