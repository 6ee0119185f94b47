"""The one other try: only where nothing was sent, only for three reasons, never two live requests for one client."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.fakes.running_gateway import RunningGateway
from tests.fakes.scripted_engine import Again, Fin, Read, Reset, ScriptedEngine, Send, Sleep, Step, ok, stream_head
from tests.faults.asking import DONE, END, ROLE, ask, body, finish, gateway_on, metrics, streamed, text

GOOD: list[Step] = [Read(), Send(streamed(ROLE, text("good"), finish(), DONE) + END), Again()]
BUSY = b'{"error":{"message":"busy","type":"x","param":null,"code":503}}'


@asynccontextmanager
async def pair(
    *scripts: Sequence[Step], **changes: object
) -> AsyncIterator[tuple[RunningGateway, list[ScriptedEngine]]]:
    """A gateway whose first choice plays the first script; one engine a script."""
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(ScriptedEngine(script)) for script in scripts]
        yield await stack.enter_async_context(gateway_on(*engines, **changes)), engines


def status(line: bytes, *headers: bytes) -> list[Step]:
    return [Read(), Send(ok(BUSY, *headers, status=line)), Again()]


async def test_an_engine_that_cannot_be_reached_is_left_for_another_one_and_asked_no_more() -> None:
    """Case H10 (a): two attempts in all."""
    async with pair(GOOD, GOOD) as (gateway, engines):
        lane = gateway.service.gateway.lanes["lowlatency"]
        lane.pool.engines[0].url = "http://127.0.0.1:1"
        answers = [await ask(gateway.url) for _ in range(4)]
        assert [a.text for a in answers] == ["good"] * 4
        assert not engines[0].requests
        assert not lane.pool.engines[0].healthy
        assert 'tokenlane_retries_total{lane="lowlatency",reason="unreachable"} 1.0' in await metrics(gateway)


@pytest.mark.parametrize("line", [b"503 Service Unavailable", b"429 Too Many Requests"])
@pytest.mark.parametrize("streamed_answer", [True, False])
async def test_an_engine_that_is_busy_is_left_for_another_one(line: bytes, streamed_answer: bool) -> None:
    """Case H6: busy is not ill."""
    good: list[Step] = GOOD if streamed_answer else [Read(), Send(ok(b"{}")), Again()]
    async with pair(status(line), good) as (gateway, engines):
        answers = [await ask(gateway.url, body(stream=streamed_answer)) for _ in range(4)]
        assert {a.status for a in answers} == {200}
        assert len(engines[1].requests) == 4
        assert gateway.service.gateway.lanes["lowlatency"].pool.engines[0].healthy


@pytest.mark.parametrize("line", [b"503 Service Unavailable", b"429 Too Many Requests"])
async def test_where_every_engine_is_busy_the_last_word_is_the_engines_and_each_was_asked_once(line: bytes) -> None:
    """Cases H6 and H10: Retry-After is kept."""
    async with pair(*[status(line, b"Retry-After: 7")] * 3) as (gateway, engines):
        answer = await ask(gateway.url)
        assert answer.status == int(line[:3])
        assert (answer.headers["retry-after"], answer.body) == ("7", BUSY)
        assert sum(len(engine.requests) for engine in engines) == 2


NO_OTHER_TRY: dict[str, tuple[list[Step], int]] = {
    "400": (status(b"400 Bad Request"), 400),
    "404": (status(b"404 Not Found"), 404),
    "500": (status(b"500 Internal Server Error"), 500),
    "502": (status(b"502 Bad Gateway"), 502),
    "closed before the head": ([Read(), Fin()], 502),
    "reset before the head": ([Read(), Reset()], 502),
    "silence": ([Read()], 504),
    "no HTTP": ([Read(), Send(b"what?\r\n\r\n")], 502),
    "an end before the first event": ([Read(), Send(stream_head() + END)], 502),
    "the role alone": ([Read(), Send(streamed(ROLE)), Sleep(0.02), Reset()], 200),
    "some text": ([Read(), Send(streamed(ROLE, text("one "), text("two "))), Sleep(0.02), Reset()], 200),
}


@pytest.mark.parametrize("name", NO_OTHER_TRY)
async def test_nothing_else_is_asked_again(name: str) -> None:
    """Cases H9 and H10: no text twice, no second generation."""
    script, expected = NO_OTHER_TRY[name]
    async with pair(script, GOOD, timeouts={"first_token_s": 0.2}) as (gateway, engines):
        answer = await ask(gateway.url)
        assert answer.status == expected
        assert "good" not in answer.body.decode()
        assert [len(engine.requests) for engine in engines] == [1, 0]


async def test_a_connection_that_was_closed_while_it_was_idle_costs_the_client_nothing() -> None:
    """Case H35: the same engine, once, and counted."""
    again: list[Step] = [Read(), Send(streamed(ROLE, text("good"), finish(), DONE) + END), Read(), Fin()]
    async with pair(again) as (gateway, engines):
        answers = [await ask(gateway.url) for _ in range(6)]
        assert [a.text for a in answers] == ["good"] * 6
        assert 'tokenlane_retries_total{lane="lowlatency",reason="stale"} 5.0' in await metrics(gateway)
        assert gateway.service.gateway.lanes["lowlatency"].pool.engines[0].healthy
        assert len(engines[0].peers) == 6


async def test_the_other_try_after_a_stale_connection_is_made_on_a_fresh_one() -> None:
    """Case H35: where one idle connection is stale, the others are too."""
    again: list[Step] = [Read(), Sleep(0.1), Send(streamed(ROLE, text("good"), finish(), DONE) + END), Read(), Fin()]
    async with pair(again) as (gateway, engines):
        await asyncio.gather(*(ask(gateway.url) for _ in range(4)))
        assert len(engines[0].peers) == 4
        assert (await ask(gateway.url)).text == "good"


async def test_a_fresh_connection_that_breaks_is_not_called_stale() -> None:
    """Case H35."""
    async with pair([Read(), Fin()]) as (gateway, engines):
        answer = await ask(gateway.url)
        assert (answer.status, answer.error["code"]) == (502, "engine_broke")
        assert len(engines[0].requests) == 1


STATUSES = [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503, 529]


@pytest.mark.parametrize("streamed_answer", [True, False])
@pytest.mark.parametrize("code", STATUSES)
async def test_each_status_of_an_engine_is_the_clients_but_what_speaks_of_our_own_key(
    code: int, streamed_answer: bool
) -> None:
    """Case H49."""
    async with pair(status(b"%d X" % code, b"Retry-After: 7")) as (gateway, _):
        answer = await ask(gateway.url, body(stream=streamed_answer))
        hidden = code in {401, 403}
        assert answer.status == (502 if hidden else code)
        assert answer.body == BUSY or hidden
        assert answer.error["message"]
        assert answer.headers["x-request-id"]
        assert hidden or answer.headers["retry-after"] == "7"


async def test_a_page_of_a_proxy_in_front_of_the_engine_is_not_shown() -> None:
    """Case H49."""
    page: list[Step] = [Read(), Send(ok(b"<html>secret.internal</html>", status=b"502 Bad Gateway"))]
    async with pair(page) as (gateway, _):
        answer = await ask(gateway.url)
        assert answer.status == 502
        assert "secret" not in answer.error["message"]


@pytest.mark.parametrize("value", [b"soon\xe4\xb8\xad", b"7\xff", b"\xf0\x9f\x98\x80"])
async def test_a_header_of_an_engine_that_is_no_text_does_no_harm(value: bytes) -> None:
    """Case H49: it is our exception that would be answered."""
    async with pair(status(b"429 Too Many Requests", b"Retry-After: " + value)) as (gateway, _):
        assert (await ask(gateway.url)).status == 429
    odd: list[Step] = [
        Read(),
        Send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json; x=" + value + b"\r\ncontent-length: 2\r\n\r\n{}"),
    ]
    async with pair(odd) as (gateway, _):
        assert (await ask(gateway.url, body(stream=False))).status == 200
