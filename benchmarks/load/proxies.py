"""Who is compared: how each is started. Pure but for nginx's file."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.proof.process import TOKENLANE

POOL = 256
"""Connections of tokenlane to its engine, so that no cell waits for one."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """One that is asked.

    Args:
        name: in tables.
        ports: that are asked; several only for engines without a proxy.
        command: starts it; none for engines without a proxy.
        variables: of its environment, besides ours.
    """

    name: str
    ports: Sequence[int]
    command: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def tokenlane(port: int, engines: Sequence[int]) -> Proxy:
    """This tree's gateway with its defaults, but for the sizes of pools."""
    variables = {}
    for lane in ("LOWLATENCY", "BATCH"):
        listed = [{"url": _url(each), "name": f"{lane.lower()}-{each}", "kind": "sim"} for each in engines]
        variables[f"TOKENLANE_LANES__{lane}__ENGINES"] = json.dumps(listed)
        variables[f"TOKENLANE_LANES__{lane}__POOL_SIZE"] = str(POOL)
    return Proxy("tokenlane", [port], [*TOKENLANE, "serve", "--host", "127.0.0.1", "--port", str(port)], variables)


def nginx(port: int, engines: Sequence[int], folder: Path) -> Proxy | None:
    """A plain nginx as it should be set up for streams; None where it is not installed."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        return None
    file = folder / "nginx.conf"
    file.write_text(_nginx_conf(port, engines, folder))
    return Proxy("nginx", [port], [program, "-e", str(folder / "nginx-errors.log"), "-c", str(file)])


def given(text: str, port: int, engines: Sequence[int]) -> Proxy:
    """A proxy from `NAME=COMMAND`; a shell runs the command.

    `{port}` becomes the port to serve on, `{engine}` the URL of the engine, `{engines}` all URLs with commas between.

    Raises:
        ValueError: there is no name or no command, or it would know fewer engines than the others.
    """
    name, sign, command = text.partition("=")
    if not name or not sign or "{port}" not in command:
        raise ValueError(f"{text}: is no NAME=COMMAND with {{port}} in it")
    if len(engines) > 1 and "{engines}" not in command:
        raise ValueError(f"{name}: needs {{engines}} where there are several")
    filled = {"{port}": str(port), "{engines}": ",".join(map(_url, engines)), "{engine}": _url(engines[0])}
    for mark, value in filled.items():
        command = command.replace(mark, value)
    return Proxy(name, [port], ["sh", "-c", f"exec {command}"])


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _nginx_conf(port: int, engines: Sequence[int], folder: Path) -> str:
    """Nothing is buffered, connections to engines are kept for less time than the simulated ones keep them."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"    {kind}_temp_path {folder}/nginx-{kind};" for kind in kinds)
    servers = " ".join(f"server 127.0.0.1:{each};" for each in engines)
    return f"""worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
{places}
    tcp_nodelay on;
    keepalive_requests 1000000;
    upstream engines {{ {servers} keepalive 256; keepalive_requests 1000000; keepalive_timeout 4s; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://engines;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""
