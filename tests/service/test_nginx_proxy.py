"""The path through nginx: a real nginx with the project's configuration in front of a real gateway process."""

import asyncio
import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from http import client as http_client
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fakes.running_nginx import Resolver, free_port, running_nginx, wait_for

pytestmark = [
    pytest.mark.nginx,
    pytest.mark.skipif(
        not (shutil.which("nginx") or Path("/usr/sbin/nginx").exists()), reason="nginx is not installed"
    ),
]

CHAT = "/v1/chat/completions"
BODY = {"model": "gpt-oss-20b", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
MIB = 1024 * 1024


@contextlib.contextmanager
def gateway(host: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A gateway process with embedded engines; pings after a second of silence."""
    options = {"timeouts.commit_after_s": 0.5, "timeouts.ping_s": 1, "server.log_level": "error"}
    sets = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    command = [Path(sys.executable).with_name("tokenlane"), "serve", "--host", host, "--port", str(port), *sets]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(host, port, process)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    resolver = Resolver()
    yield resolver
    resolver.close()


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def gateway_process(port: int) -> Iterator["subprocess.Popen[bytes]"]:
    with gateway("127.0.0.2", port) as process:
        yield process


@pytest.fixture
def url(tmp_path: Path, resolver: Resolver, port: int, gateway_process: object) -> Iterator[str]:
    """An nginx in front of the module's gateway."""
    resolver.address = "127.0.0.2"
    with running_nginx(tmp_path, resolver, port) as url:
        yield url


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        yield client


async def arrivals(http: httpx.AsyncClient, headers: dict[str, str]) -> list[tuple[float, bytes]]:
    """When each line of a stream came, and the line."""
    lines = []
    async with http.stream("POST", CHAT, json=BODY, headers=headers) as response:
        assert response.status_code == 200
        async for chunk in response.aiter_raw():
            lines += [(time.monotonic(), line) for line in chunk.split(b"\n") if line]
    return lines


def answer(text: bytes | str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(text)
    assert set(tree["error"]) == {"message", "type", "param", "code"}
    return tree


async def test_events_of_a_stream_keep_their_distance(http: httpx.AsyncClient) -> None:
    """Case H39: 300 ms between events at the engine are 300 ms at the client; nothing is collected on the way."""
    lines = await arrivals(http, {"x-sim-itl-ms": "300", "x-sim-tokens": "12", "x-sim-ttft-ms": "50"})
    times = [at for at, line in lines if b'"content":"' in line and b'"content":""' not in line]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) >= 10
    even = sum(0.24 <= gap <= 0.36 for gap in gaps)
    assert even >= len(gaps) - 1, gaps  # one may be late on a machine that does something else
    assert min(gaps) > 0.1


async def test_the_headers_of_a_stream_say_that_it_must_not_be_kept(http: httpx.AsyncClient) -> None:
    """Cases H38 and H39: no compression, no cache, whatever the client accepts."""
    async with http.stream("POST", CHAT, json=BODY, headers={"accept-encoding": "gzip, br"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "no-cache" in response.headers["cache-control"]
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in response.headers
        assert (await response.aread()).endswith(b"data: [DONE]\n\n")


async def test_pings_carry_a_silent_stream_through_a_short_read_timeout(http: httpx.AsyncClient) -> None:
    """Seven seconds to the first token through a proxy that cuts after three seconds of silence."""
    lines = await arrivals(http, {"x-sim-ttft-ms": "7000", "x-sim-itl-ms": "1", "x-sim-tokens": "3"})
    assert sum(line.startswith(b":") for _, line in lines) >= 4
    assert lines[-1][1] == b"data: [DONE]"


async def test_nothing_that_is_silent_for_longer_than_the_read_timeout_ends_without_json(
    http: httpx.AsyncClient,
) -> None:
    response = await http.post(CHAT, json=BODY | {"stream": False}, headers={"x-sim-ttft-ms": "6000"})
    assert response.status_code == 504
    assert answer(response.content)["error"]["code"] == "gateway_timeout"


async def test_a_gateway_on_another_address_is_found_without_a_reload(tmp_path: Path, resolver: Resolver) -> None:
    """Case H40: nginx starts before there is a gateway, then finds it, then finds it again somewhere else."""
    port = free_port()
    with running_nginx(tmp_path, resolver, port) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:
            missing = await http.get("/v1/models")
            assert (missing.status_code, missing.headers["retry-after"]) == (502, "1")
            assert answer(missing.content)["error"]["code"] == "gateway_unreachable"
            for host in ("127.0.0.3", "127.0.0.4"):
                resolver.address = host
                with gateway(host, port):
                    assert await found(http)
                gone = await http.get("/v1/models")
                assert gone.status_code == 502
                assert answer(gone.content)


async def found(http: httpx.AsyncClient) -> bool:
    """Whether the gateway answers within some lives of the resolver's record."""
    for _ in range(50):
        if (await http.get("/v1/models")).status_code == 200:
            return True
        await asyncio.sleep(0.1)
    return False


async def test_a_body_that_the_gateway_takes_arrives_whole(http: httpx.AsyncClient) -> None:
    """Case H41: six megabytes of image in a message."""
    headers = {"content-type": "application/json", "x-sim-tokens": "2"}
    response = await http.post(CHAT, content=with_image("A" * 6 * MIB), headers=headers)
    assert response.status_code == 200, response.text
    assert response.content.endswith(b"data: [DONE]\n\n")


def with_image(data: str) -> bytes:
    """A body with an image of that text."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}
    return json.dumps(BODY | {"messages": [{"role": "user", "content": [image]}]}).encode()


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "in chunks"])
async def test_a_body_of_30_mb_is_refused_by_one_rule(url: str, chunked: bool) -> None:
    """Case H41: nginx has the gateway's limit and its words; a body above it never becomes a 502."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {30 * MIB}"
    piece = b"%x\r\n%b\r\n" % (MIB, b"x" * MIB) if chunked else b"x" * MIB
    for _ in range(3):
        with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
            with contextlib.suppress(ConnectionError):
                for _ in range(30):
                    client.sendall(piece)
            head, body = client.recv(65536).split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 413 ")
        error = answer(body)["error"]
        assert (error["code"], str(20 * MIB) in error["message"]) == ("body_too_large", True)


async def test_the_largest_body_that_is_allowed_passes_both_limits(http: httpx.AsyncClient) -> None:
    frame = with_image("")
    body = with_image("A" * (20 * MIB - len(frame)))
    response = await http.post(CHAT, content=body, headers={"content-type": "application/json", "x-sim-tokens": "2"})
    assert (len(body), response.status_code) == (20 * MIB, 200)


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/metrics/",
        "/METRICS",
        "//metrics",
        "/%6detrics",
        "/v1/../metrics",
        "/v1/%2e%2e/metrics",
        "/metrics?x=1",
    ],
)
async def test_metrics_are_not_for_the_public(url: str, path: str) -> None:
    status, body = raw(url, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status == 404
    assert b"tokenlane_" not in body
    answer(body)


@pytest.mark.parametrize(
    "path", ["/v1/../../etc/passwd", "/v1/..%2f..%2fmetrics", "/v1/models/..;/metrics", "/v1/./../metrics/../v1/sleep"]
)
async def test_paths_that_climb_reach_nothing(url: str, path: str) -> None:
    status, body = raw(url, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status in {400, 404}
    assert b"tokenlane_" not in body
    answer(body)


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/v1//chat/completions", "/v1/models/"])
async def test_a_slash_too_many_is_no_redirect(http: httpx.AsyncClient, path: str) -> None:
    """Case H42: a redirect would lose the body, and name a host of the inside."""
    response = await http.post(path, json=BODY)
    assert response.status_code in {200, 404, 405}
    assert "location" not in response.headers


async def test_a_connection_is_kept_over_a_pause(url: str) -> None:
    """Two requests on one connection, six seconds apart: longer than an engine keeps one, shorter than nginx does."""
    client = http_client.HTTPConnection(urlsplit(url).netloc)
    ports = set()
    for pause in (0, 6):
        await asyncio.sleep(pause)
        client.request("GET", "/health")
        assert client.getresponse().read() == b'{"status":"ok"}'
        ports.add(client.sock.getsockname()[1])
    client.close()
    assert len(ports) == 1


async def test_a_pause_beyond_the_keep_alive_costs_a_connection_and_no_request(
    tmp_path: Path, resolver: Resolver, port: int, gateway_process: object
) -> None:
    """The keep-alive scaled down to half a second: the next request of a pool still succeeds."""
    del gateway_process
    resolver.address = "127.0.0.2"
    with running_nginx(tmp_path, resolver, port, TOKENLANE_NGINX_KEEPALIVE="500ms") as url:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            for _ in range(3):
                assert (await http.get("/health")).status_code == 200
                await asyncio.sleep(0.8)


async def test_what_a_client_claims_about_itself_is_replaced(tmp_path: Path, resolver: Resolver) -> None:
    """Forwarding headers of the outside do not reach the gateway."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        resolver.address = "127.0.0.1"
        with running_nginx(tmp_path, resolver, listening.getsockname()[1]) as url:
            claims = "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-Proto: gopher\r\n"
            request = f"GET /v1/models?a=%20b HTTP/1.1\r\nHost: api.example\r\n{claims}X-Request-Id: mine\r\n\r\n"
            with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as client:
                client.sendall(request.encode())
                connection, _ = await asyncio.to_thread(listening.accept)
                with connection:
                    head = connection.recv(65536).decode().lower()
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert head.startswith("get /v1/models?a=%20b http/1.1\r\n")
    assert "6.6.6.6" not in head
    assert "x-forwarded-for: 127.0.0.1\r\n" in head
    assert "x-forwarded-proto: http\r\n" in head
    assert "host: api.example\r\n" in head
    assert "x-request-id: mine\r\n" in head


async def test_a_client_that_leaves_is_felt_by_the_gateway(tmp_path: Path, resolver: Resolver) -> None:
    """The connection behind nginx closes when the one in front does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        resolver.address = "127.0.0.1"
        with running_nginx(tmp_path, resolver, listening.getsockname()[1]) as url:
            client = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port))
            client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
            connection, _ = await asyncio.to_thread(listening.accept)
            with connection:
                connection.settimeout(2)
                assert connection.recv(65536)
                client.close()
                assert connection.recv(1) == b""


async def test_a_request_line_that_is_too_long_is_refused_with_json(url: str) -> None:
    status, body = raw(url, f"GET /v1/{'x' * 40_000} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status == 431
    assert answer(body)["error"]["code"] == "headers_too_large"


async def test_on_the_messages_path_nginx_speaks_as_anthropic_does(tmp_path: Path, resolver: Resolver) -> None:
    with running_nginx(tmp_path, resolver, free_port()) as url:
        status, body = raw(
            url, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    assert status == 502
    assert json.loads(body)["error"]["type"] == "api_error"
    assert json.loads(body)["type"] == "error"


def raw(url: str, request: str) -> tuple[int, bytes]:
    """Status and body of a request that no client library has made tidy."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10) as client:
        client.sendall(request.encode())
        data = b""
        while piece := client.recv(65536):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body
