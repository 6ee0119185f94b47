"""Whatever a client sends, it gets a clear 4xx in OpenAI's shape, and no engine is troubled."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.fakes.running_gateway import asked, gateway_on_sim

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}
GOOD = b'{"model":"gpt-oss-20b","messages":[{"role":"user","content":"hi"}],"max_tokens":2}'

REFUSED_HERE: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"hello", ""),
    "empty": (b"", ""),
    "a list": (b"[]", ""),
    "text": (b'"x"', ""),
    "cut off": (GOOD[:-1], ""),
    "NaN": (b'{"model":"gpt-oss-20b","temperature":NaN}', ""),
    "Infinity": (b'{"model":"gpt-oss-20b","temperature":-Infinity}', ""),
    "a lone surrogate": (b'{"model":"\\ud800","messages":[]}', ""),
    "not UTF-8": (b'{"model":"\xff\xfe"}', ""),
    "deep nesting": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, ""),
    "model of the wrong type": (b'{"model":7,"messages":[]}', "model"),
    "stream of the wrong type": (b'{"model":"m","stream":"yes"}', "stream"),
    "an unknown service tier": (b'{"model":"m","service_tier":"gold"}', "service_tier"),
    "a service tier of the wrong type": (b'{"model":"m","service_tier":{"a":1}}', "service_tier"),
}

REFUSED_BY_THE_ENGINE: dict[str, tuple[bytes, int]] = {
    "unknown model": (b'{"model":"nope","messages":[{"role":"user","content":"hi"}]}', 404),
    "no messages": (b'{"model":"gpt-oss-20b","messages":[]}', 400),
    "messages of the wrong type": (b'{"model":"gpt-oss-20b","messages":"hi"}', 400),
    "max_tokens of the wrong type": (GOOD.replace(b":2}", b':"many"}'), 400),
    "temperature out of bounds": (GOOD.replace(b"}],", b'}],"temperature":-1,'), 400),
    "n of zero": (GOOD.replace(b"}],", b'}],"n":0,'), 400),
}


def is_openais_error(body: bytes) -> bool:
    return set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("name", REFUSED_HERE)
async def test_nonsense_is_refused_without_asking_an_engine(name: str) -> None:
    """Case H49."""
    body, param = REFUSED_HERE[name]
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(CHAT, content=body, headers=JSON)
        assert answer.status_code == 400
        assert is_openais_error(answer.content)
        assert (answer.json()["error"]["param"] or "") == param
        assert not asked(engine)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", REFUSED_BY_THE_ENGINE)
async def test_what_the_engine_refuses_keeps_its_status_and_words(name: str, streamed: bool) -> None:
    """Case H28 (a): an error before the first token is a true status, for a stream too."""
    body, status = REFUSED_BY_THE_ENGINE[name]
    body = b'{"stream":true,' + body[1:] if streamed else body
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(CHAT, content=body, headers=JSON)
        direct = await gateway.http.post(engine.url + CHAT, content=body, headers=JSON)
        assert answer.status_code == direct.status_code == status
        assert answer.content == direct.content


UNKNOWN = [
    "/v1",
    "/v1/nope",
    "/metrics/",
    "/docs",
    "/openapi.json/",
    "/redoc",
    "/sleep",
    "/pause",
    "/resume",
    "/abort_requests",
    "/wake_up",
    "/is_sleeping",
    "/reset_prefix_cache",
    "/update_weights",
    "/invocations",
    "/load",
    "/version",
    "/ping",
    "/server_info",
    "//v1/models",
    "/V1/models",
    "/v1/../metrics",
    "/v1/chat/completions/",
    "/v1//chat/completions",
    "/%2e%2e/sleep",
    "/v1/chat/completions%00",
    "/sim/set",
    "/sim/stats",
]


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_that_is_not_on_the_list_is_a_404_and_reaches_no_engine(method: str, path: str) -> None:
    """Cases H12 and H42: never a redirect, never proxied."""
    async with gateway_on_sim() as (gateway, engine):
        status, body = await raw(
            gateway.url,
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode(),
        )
        assert status == 404
        assert is_openais_error(body)
        assert not asked(engine)


@pytest.mark.parametrize("path", ["/v1/models/%2e%2e/metrics", "/v1/models/..%2f..%2fsleep", "/v1/models/"])
async def test_a_path_below_the_models_is_the_name_of_a_model_and_is_not_there(path: str) -> None:
    """Case H12: names of models have slashes, so a path that climbs is one; no engine is asked for more than its list."""
    async with gateway_on_sim() as (gateway, engine):
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        status, body = await raw(gateway.url, head.encode())
        assert (status, json.loads(body)["error"]["code"]) == (404, "model_not_found")
        assert {request.path for request in asked(engine)} == {"/v1/models"}


async def test_the_document_of_the_interface_is_served_and_names_nothing_that_is_the_engines_alone() -> None:
    """Case H12: it is the allow-list in writing, and clients are made from it; a page to click through is not needed."""
    async with gateway_on_sim() as (gateway, engine):
        paths = (await gateway.http.get("/openapi.json")).json()["paths"]
        assert CHAT in paths
        assert not paths.keys() & {"/sleep", "/pause", "/abort_requests", "/load", "/sim/set"}
        assert not asked(engine)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", CHAT), ("DELETE", CHAT), ("PUT", "/v1/models"), ("POST", "/health"), ("OPTIONS", CHAT), ("TRACE", CHAT)],
)
async def test_a_wrong_method_is_a_405(method: str, path: str) -> None:
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.request(method, path)
        assert answer.status_code == 405
        assert is_openais_error(answer.content)
        assert answer.headers["allow"]
        assert not asked(engine)


async def test_a_body_over_the_limit_is_refused_before_it_is_sent() -> None:
    """Case H41: the limit is named."""
    async with gateway_on_sim() as (gateway, engine):
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {30 * 2**20}\r\n\r\n"
        )
        status, body = await raw(gateway.url, head.encode())
        assert status == 413
        assert str(20 * 2**20) in json.loads(body)["error"]["message"]
        assert not asked(engine)


async def test_a_client_that_sends_a_body_over_the_limit_all_the_same_still_reads_why() -> None:
    """Case H41: a connection that is closed with bytes unread is reset, and the answer with it."""
    async with gateway_on_sim() as (gateway, _engine):
        for _ in range(3):
            answer = await gateway.http.post(CHAT, content=b" " * 30 * 2**20, headers=JSON)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


async def test_a_chunked_body_over_the_limit_is_refused_while_it_comes() -> None:
    """Case H41."""

    def endless() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 2**20

    async def pieces() -> object:
        for piece in endless():
            yield piece
            await asyncio.sleep(0)

    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(CHAT, content=pieces(), headers=JSON)
        assert answer.status_code == 413
        assert is_openais_error(answer.content)
        assert not asked(engine)


async def test_a_body_below_the_limit_arrives_whole() -> None:
    """Case H41: a photo of 6 MB as a data URL."""
    picture = "data:image/png;base64," + "A" * 6 * 2**20
    content = [{"type": "image_url", "image_url": {"url": picture}}]
    body = json.dumps({"model": "gpt-oss-20b", "messages": [{"role": "user", "content": content}]}).encode()
    async with gateway_on_sim() as (gateway, engine):
        await gateway.http.post(CHAT, content=body, headers=JSON)
        assert asked(engine)[-1].body == body


async def test_a_compressed_body_is_refused_instead_of_misread() -> None:
    """Case H34."""
    async with gateway_on_sim() as (gateway, _engine):
        answer = await gateway.http.post(CHAT, content=GOOD, headers={**JSON, "content-encoding": "gzip"})
        assert answer.status_code == 415
        assert is_openais_error(answer.content)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]
)
async def test_a_body_that_is_not_called_json_is_refused(kind: str | None) -> None:
    """A page elsewhere can make a browser send these without asking; JSON it cannot."""
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(CHAT, content=GOOD, headers={"content-type": kind} if kind else {})
        assert answer.status_code == 400
        assert "Content-Type" in answer.json()["error"]["message"]
        assert not asked(engine)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Tokenlane-Lane", "nope"),
        ("X-Tokenlane-Buffer", "tokens=0"),
        ("X-Tokenlane-Buffer", "tokens=65"),
        ("X-Tokenlane-Buffer", "delay_ms=-1"),
        ("X-Tokenlane-Buffer", "delay_ms=1001"),
        ("X-Tokenlane-Buffer", "words=4"),
        ("X-Tokenlane-Buffer", "tokens"),
        ("X-Tokenlane-Buffer", "tokens=²"),
    ],
)
async def test_a_header_that_makes_no_sense_is_named(header: str, value: str) -> None:
    async with gateway_on_sim() as (gateway, engine):
        body = json.dumps({**json.loads(GOOD), "stream": True})
        headers = {**JSON, header: value}
        answer = await gateway.http.post(
            CHAT, content=body, headers=[(k.encode(), v.encode()) for k, v in headers.items()]
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == header
        assert not asked(engine)


SMUGGLED = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length and chunked": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": b"Transfer-Encoding: gzip\r\n\r\n{}",
    "a folded header": b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
    "a space before the colon": b"Content-Length : 2\r\n\r\n{}",
    "a length with a sign": b"Content-Length: +2\r\n\r\n{}",
    "a bad chunk size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_a_request_with_two_meanings_is_refused(name: str) -> None:
    async with gateway_on_sim() as (gateway, engine):
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
        status, _ = await raw(gateway.url, head + SMUGGLED[name])
        assert 400 <= status < 500
        assert not asked(engine)


async def raw(url: str, request: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to these very bytes."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(10):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None)
        body = await (reader.readexactly(length) if length is not None else reader.read())
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body
