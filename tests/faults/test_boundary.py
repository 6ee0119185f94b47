"""The line between client and engine: what may cross it, in which size, and what nobody on either side gets to see."""

import asyncio
import json
import re
import socket

import pytest

from app.serve import listen
from app.sim import SimEngine, SimSettings
from config.settings import ServerSettings
from tests.fakes.running_gateway import gateway_on_sim, running_gateway, settings_for
from tests.fakes.scripted_engine import Again, Read, ScriptedEngine, Send, ok
from tests.faults.asking import CHAT, Client, answer, ask, body, gateway_on, request, until
from tests.faults.test_shutdown import process

SIM = SimSettings(ttft_ms=1, itl_ms=0.2, tokens=4)
HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()

TOO_LARGE: dict[str, bytes] = {
    "one header": HEAD + b"X-A: " + b"a" * 20_000 + b"\r\n\r\n",
    "many headers": HEAD + b"".join(b"X-%d: %b\r\n" % (n, b"a" * 1000) for n in range(80)) + b"\r\n",
    "the path": b"GET /v1/models?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without an end": HEAD + b"X-A: " + b"a" * 400_000,
    "a name without an end": HEAD + b"a" * 400_000,
    "a path without an end": b"GET /" + b"a" * 400_000,
    "headers without an end": HEAD + b"X-A: b\r\n" * 60_000,
}


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_a_head_that_is_too_large_is_refused_while_it_comes(name: str) -> None:
    """Case H41: 431 in OpenAI's shape; no engine hears of it, and what was kept has a bound."""
    async with gateway_on_sim(SIM) as (gateway, engine), Client(gateway.url) as client:
        sending = asyncio.create_task(client.send(TOO_LARGE[name]))
        read = await client.rest()
        assert (read.status, read.error["code"], read.headers["connection"]) == (431, "head_too_large", "close")
        sending.cancel()
        await asyncio.wait((sending,))
        assert not any(r.method == "POST" for r in engine.requests)


async def test_limits_of_a_head_are_those_of_the_settings_and_what_is_below_passes() -> None:
    """Case H41."""
    limits = {"head_bytes": 4096, "header_bytes": 1024}
    async with gateway_on_sim(SIM, limits=limits) as (gateway, _engine):
        assert (await ask(gateway.url, x_a="a" * 1000)).status == 200
        assert (await ask(gateway.url, x_a="a" * 1100)).status == 431
        assert (await ask(gateway.url, **{f"x_{n}": "a" * 900 for n in range(5)})).status == 431


async def test_a_large_body_on_a_kept_connection_is_not_taken_for_a_head() -> None:
    """Case H41: bytes of a body do not count, nor does the next request behind it."""
    content = body(stream=False, padding="x" * 300_000)
    first = request(content).replace(b"connection: close\r\n", b"")
    async with gateway_on_sim(SIM) as (gateway, _engine), Client(gateway.url) as client:
        await client.send(first + request(body(stream=False)))
        while await client.read():
            pass
        assert client.got.count(b"HTTP/1.1 200 OK") == 2


SMALL = body(stream=False)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(SMALL), SMALL)
BEHIND: dict[str, bytes] = {
    "many fields": CHUNKED + b"X-A: %b\r\n" % (b"a" * 1000) * 400,
    "a field without an end": CHUNKED + b"X-A: " + b"a" * 400_000,
    "a chunk's extension without an end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;a=" + b"a" * 400_000,
}


@pytest.mark.parametrize("name", BEHIND)
async def test_what_frames_a_body_without_an_end_is_refused_while_it_comes(name: str) -> None:
    """Case H41: fields behind a body, and what stands beside a chunk's size, have the bound of a head."""
    async with gateway_on_sim(SIM) as (gateway, engine), Client(gateway.url) as client:
        sending = asyncio.create_task(client.send(BEHIND[name]))
        read = await client.rest()
        assert (read.status, read.error["code"], read.headers["connection"]) == (431, "head_too_large", "close")
        sending.cancel()
        await asyncio.wait((sending,))
        assert not any(r.method == "POST" for r in engine.requests)


async def test_fields_behind_a_body_are_no_headers() -> None:
    """Case H41; RFC 9110, 6.5.1: a lane, an id or a key that comes there is none."""
    trailers = b"X-Tokenlane-Lane: batch\r\nX-Request-Id: from-behind\r\n\r\n"
    async with gateway_on_sim(SIM) as (gateway, _engine), Client(gateway.url) as client:
        await client.send(CHUNKED.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + trailers)
        read = await client.rest()
        assert read.status == 200
        assert read.headers["x-tokenlane-lane"] == "lowlatency"
        assert read.headers["x-request-id"] != "from-behind"


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_an_offer_of_another_protocol_is_ignored_and_its_body_read(framing: str, apart: bool) -> None:
    """RFC 9110, 7.8: Java's client offers HTTP/2 so. A body is never taken for the next request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    framed = {
        "length": (b"Content-Length: %d\r\n\r\n" % len(SMALL), SMALL),
        "chunks": (b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMALL), SMALL)),
    }
    head, content = framed[framing]
    async with gateway_on_sim(SIM) as (gateway, engine), Client(gateway.url) as client:
        await client.send(HEAD + offer + head)
        if apart:
            await asyncio.sleep(0.05)
        await client.send(content + request(SMALL))
        while await client.read():
            pass
        assert client.got.count(b"HTTP/1.1 200 OK") == client.got.count(b"HTTP/1.1 ") == 2
        assert len([r for r in engine.requests if r.method == "POST"]) == 2


async def test_what_is_no_http_is_refused_in_the_usual_shape() -> None:
    """Case H49."""
    async with gateway_on_sim(SIM) as (gateway, _engine), Client(gateway.url) as client:
        await client.send(b"\x16\x03\x01 hello\r\n\r\n")
        read = await client.rest()
        assert read.status == 400
        assert read.error["message"]


async def test_bytes_that_are_no_request_end_a_stream_without_breaking_its_bytes() -> None:
    """A second answer is never written into a first one."""
    async with gateway_on_sim(SIM) as (gateway, engine), Client(gateway.url) as client:
        await client.send(request(x_sim_tokens="100000").replace(b"connection: close\r\n", b""))
        await client.until(b"data: ")
        await client.send(b"no request at all\r\n\r\n")
        await client.rest()
        assert client.got.count(b"HTTP/1.1") == 1
        await until(lambda: engine.running == 0)


async def test_a_request_behind_another_on_one_connection_is_answered_after_it() -> None:
    """Request smuggling: what comes behind a body is a request of its own, with limits of its own."""
    hidden = b"GET /sleep HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    first = request(body(stream=False)).replace(b"connection: close\r\n", b"")
    async with gateway_on_sim(SIM) as (gateway, engine), Client(gateway.url) as client:
        await client.send(first + hidden)
        while await client.read():
            pass
        assert client.got.count(b"HTTP/1.1 200 OK") == client.got.count(b"HTTP/1.1 404 Not Found") == 1
        assert not any(r.path == "/sleep" for r in engine.requests)


HOP = b"Connection: keep-alive, X-Secret\r\nX-Secret: s\r\nKeep-Alive: timeout=9\r\nTE: trailers\r\nUpgrade: h2c\r\n"


async def test_headers_for_one_hop_cross_in_neither_direction() -> None:
    """Cases H11 and H33: an allow-list each way, and one length each way."""
    odd = (
        b"X-Secret: engine",
        b"Connection: X-Secret",
        b"Set-Cookie: a=b",
        b"Server: vllm",
        b"Content-Encoding: identity",
    )
    async with ScriptedEngine([Read(), Send(ok(b'{"a":1}', *odd)), Again()]) as engine, gateway_on(engine) as gateway:
        async with Client(gateway.url) as client:
            content = body(stream=False, service_tier="flex")
            await client.send(HEAD + HOP + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(content) + content)
            read = await client.rest()
        (sent,) = engine.requests
        names = [name for name, _ in sent.headers]
        assert sent.values("content-length") == [str(len(sent.body))]
        assert b"service_tier" not in sent.body
        assert sent.values("accept-encoding") == ["identity"]
        assert not {"x-secret", "te", "keep-alive", "upgrade", "transfer-encoding"} & set(names)
        assert not {"x-secret", "set-cookie", "content-encoding", "transfer-encoding"} & read.headers.keys()
        assert read.headers["content-length"] == str(len(read.body))
        assert json.loads(read.body) == {"a": 1, "service_tier": "flex"}


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_engine_is_never_asked_to_compress(streamed: bool) -> None:
    """Case H34."""
    async with gateway_on_sim(SIM) as (gateway, _engine):
        read = await ask(gateway.url, body(stream=streamed), accept_encoding="gzip, br, zstd", x_sim_fault="gzip")
        assert read.status == 200
        assert "content-encoding" not in read.headers
        assert read.done or json.loads(read.body)["choices"]


async def test_an_engine_that_compresses_all_the_same_is_not_misread() -> None:
    """Case H34."""
    packed = ok(b"\x1f\x8b...", b"Content-Encoding: gzip")
    async with ScriptedEngine([Read(), Send(packed)]) as engine, gateway_on(engine) as gateway:
        assert (await ask(gateway.url, body(stream=False))).status == 502


async def test_a_query_and_a_charset_are_no_obstacle() -> None:
    """Case H42."""
    async with gateway_on_sim(SIM) as (gateway, _engine):
        asked = await gateway.http.post(
            f"{CHAT}?api-version=1", content=body(), headers={"content-type": "application/json; charset=utf-8"}
        )
        assert asked.status_code == 200


@pytest.mark.parametrize("depth", [900, 1020, 5000])
async def test_a_deeply_nested_body_is_no_fault_of_ours(depth: int) -> None:
    """Case H43: also where the body has to be changed."""
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    content = b'{"model":"gpt-oss-20b:batch","service_tier":"flex","messages":[],"x":' + nested + b"}"
    async with gateway_on_sim(SIM) as (gateway, _engine):
        assert (await ask(gateway.url, content)).status == 400


async def test_a_client_that_vanishes_is_given_up_by_the_system() -> None:
    """Case H57: no byte acknowledged for as long as the write deadline."""
    listening = listen(ServerSettings(port=0), unread=7.5)
    with listening:
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7500


SECRETS = ("engine-secret", "client-secret", "a prompt that is nobody's business")


async def test_no_key_no_prompt_and_no_address_stand_in_a_log_or_an_error() -> None:
    """Case H13: at DEBUG, good requests and every way to fail, tracebacks included."""
    engine = '[{"url":"http://127.0.0.1:1","kind":"sim","api_key":"engine-secret"}]'
    log: list[str] = []
    async with process(
        log=log, SERVER__LOG_LEVEL="debug", LANES__LOWLATENCY__ENGINES=engine, LANES__BATCH__ENGINES=engine
    ) as (_, url):
        headers = {"authorization": "Bearer client-secret", "x_api_key": "client-secret", "cookie": "a=client-secret"}
        prompt = [{"role": "user", "content": SECRETS[2]}]
        said = [
            await ask(url, body(messages=prompt), **headers),
            await ask(url, body(messages=prompt, stream=False), **headers),
            await ask(url, body(messages=prompt)[:-1], **headers),
            await ask(url, body(messages=prompt, model=7), **headers),
        ]
        assert {a.status for a in said} <= {400, 502, 503}
        async with Client(url) as client:
            await client.send(b"GARBAGE client-secret\r\n\r\n")
            said.append(await client.rest())
        for each in said:
            assert not [secret for secret in (*SECRETS, "127.0.0.1:1") if secret in each.body.decode()]
    assert log
    assert "request" in log[0]
    assert not [secret for secret in SECRETS if secret in log[0]]
    assert not re.search(r"127\.0\.0\.1:1(?!\d)", log[0])


class Wrong:
    """A client to the engines that has a mistake in it."""

    async def send(self, *_: object, **__: object) -> None:
        raise RuntimeError("ours")


async def test_a_fault_of_ours_tells_the_client_its_request_and_the_log_no_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Case H13: a traceback holds code, never what the variables held."""
    async with gateway_on_sim(SIM) as (gateway, _engine):
        right, gateway.service.gateway.client = gateway.service.gateway.client, Wrong()  # type: ignore[assignment]
        read = await ask(gateway.url, body(messages=[{"role": "user", "content": SECRETS[2]}]))
        gateway.service.gateway.client = right
        assert (read.status, read.error["code"]) == (500, "internal_error")
        assert read.headers["x-request-id"]
    assert "RuntimeError: ours" in caplog.text
    assert SECRETS[2] not in caplog.text


async def test_a_listener_that_fails_costs_a_line_in_the_log_and_no_answer() -> None:
    """Case H3."""
    async with SimEngine(SIM) as engine, running_gateway(settings_for(engine)) as gateway:

        def failing(event: object) -> None:
            raise RuntimeError("a metric that does not count")

        gateway.service.gateway.observer.add(failing)  # type: ignore[attr-defined]
        for streamed in (True, False):
            assert (await ask(gateway.url, body(stream=streamed))).status == 200


def test_the_reader_of_these_tests_sees_an_answer_that_is_not_whole() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert answer(head + b"2\r\nab\r\n0\r\n\r\n").whole
    assert not answer(head + b"2\r\nab\r\n").whole
