"""How a stream ends: what was received first, then one error event, and never an end that the engine did not make."""

import json
import time

import pytest

from tests.fakes.scripted_engine import Fin, Read, Reset, ScriptedEngine, Send, Sleep, Step, chunk, ok, stream_head
from tests.faults.asking import CHAT, DONE, END, ROLE, ask, body, counted, finish, gateway_on, streamed, text, until

HALF = text("never seen")[:60]
TOOL = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\\"x\\":"}}]},"finish_reason":null}]}\n\n'
PARTIAL = streamed(ROLE, text("Hello "), text("wor"))
ERROR = b'data: {"error":{"message":"unexpected tokens remaining in message header","type":"InternalServerError","param":null,"code":500}}\n\n'

BROKEN: dict[str, tuple[list[Step], str]] = {
    "reset": ([Send(PARTIAL), Sleep(0.02), Reset()], "engine_broke"),
    "closed without a finish": ([Send(PARTIAL), Fin()], "engine_broke"),
    "an end without a finish": ([Send(PARTIAL + END)], "engine_truncated"),
    "cut within an event": ([Send(PARTIAL + chunk(HALF)), Fin()], "engine_broke"),
    "an end within an event": ([Send(PARTIAL + chunk(HALF) + END)], "engine_broke"),
    "[DONE] without a finish": ([Send(streamed(ROLE, text("Hello "), text("wor"), DONE) + END)], ""),
    "garbage": ([Send(PARTIAL + chunk(b"data: <html>\n\n") + END)], "engine_broke"),
    "a chunk that is none": ([Send(PARTIAL + b"zz\r\n")], "engine_broke"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_an_answer_that_is_not_whole_keeps_what_came_and_says_that_it_is_not(name: str) -> None:
    """Cases H7 H8 H24: no finish is made up, and no [DONE]."""
    steps, code = BROKEN[name]
    async with ScriptedEngine([Read(), *steps]) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert (answer.status, answer.text, answer.whole) == (200, "Hello wor", True)
        assert '"finish_reason":"' not in answer.body.decode()
        assert answer.body.count(b'"error"') == (1 if code else 0)
        assert answer.done == (not code)
        if code:
            assert answer.error["code"] == code
        await gateway.settles()
        assert await counted(gateway, "engine_error", 200) == 1


@pytest.mark.parametrize("name", [name for name, (_, code) in BROKEN.items() if code])
async def test_half_a_tool_call_is_not_called_whole(name: str) -> None:
    """Case H7."""
    steps, code = BROKEN[name]
    first = steps[0]
    assert isinstance(first, Send)
    data = first.data.replace(chunk(text("wor")), chunk(TOOL))
    async with ScriptedEngine([Read(), Send(data), *steps[1:]]) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert answer.error["code"] == code
        assert b'"f"' in answer.body
        assert not answer.done


async def test_a_finish_without_its_last_word_gets_it() -> None:
    """Case H7: the answer is whole."""
    script: list[Step] = [Read(), Send(streamed(ROLE, text("Hello"), finish())), Fin()]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert (answer.text, answer.done, answer.whole) == ("Hello", True, True)
        assert b'"error"' not in answer.body
        await gateway.settles()
        assert await counted(gateway, "ok", 200) == 1


async def test_what_came_just_before_a_reset_is_not_lost() -> None:
    """Case H8: both pieces are still held by the buffer."""
    lanes = {"lowlatency": {"buffer": {"tokens": 64, "delay_ms": 1000}}}
    script: list[Step] = [
        Read(),
        Send(streamed(ROLE, text("first"), text(" partial"), text(" answer"))),
        Sleep(0.02),
        Reset(),
    ]
    async with ScriptedEngine(script) as engine, gateway_on(engine, lanes=lanes) as gateway:
        answer = await ask(gateway.url)
        assert answer.text == "first partial answer"
        assert answer.error["code"] == "engine_broke"


async def test_an_error_in_the_stream_is_the_engines_own_and_comes_after_what_was_received() -> None:
    """Cases H28 (d) and H30: the engine stays in service, and nothing is asked again."""
    script: list[Step] = [Read(), Send(streamed(ROLE, *[text("think ")] * 4, ERROR, DONE) + END)]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert answer.text == "think " * 4
        assert "unexpected tokens" in answer.body.decode()
        assert len(engine.requests) == 1
        assert gateway.service.gateway.lanes["lowlatency"].pool.engines[0].healthy


@pytest.mark.parametrize("streamed_answer", [True, False])
async def test_an_error_before_the_first_token_keeps_its_status_and_words(streamed_answer: bool) -> None:
    """Cases H28 (a) and H30."""
    said = b'{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}'
    script: list[Step] = [Read(), Send(ok(said, b"Retry-After: 7", status=b"400 Bad Request"))]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url, body(stream=streamed_answer))
        assert (answer.status, answer.body, answer.headers["retry-after"]) == (400, said, "7")


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (b'data: {"error":{"message":"bad","code":400}}\n\n', 400),
        (b'data: {"error":{"message":"bad","code":"429"}}\n\n', 429),
        (b'data: {"error":{"message":"bad","code":"weird"}}\n\n', 502),
        (b'data: {"error":{"message":"bad"}}\n\n', 502),
        (b'data: {"error":"bad"}\n\n', 502),
        (b'data: {"error":{"message":"bad","code":true}}\n\n', 502),
        (b'event: error\ndata: {"error":{"message":"bad","code":403}}\n\n', 502),
    ],
)
async def test_an_error_event_that_comes_first_becomes_the_status(event: bytes, status: int) -> None:
    """Case H28 (b)."""
    script: list[Step] = [Read(), Send(streamed(event, DONE) + END)]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert answer.status in ({status, 500} if status == 502 else {status})
        assert "error" in json.loads(answer.body)


async def test_nothing_but_done_is_no_answer() -> None:
    """Case H28 (c)."""
    async with ScriptedEngine([Read(), Send(streamed(DONE) + END)]) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert (answer.status, answer.error["code"]) == (502, "engine_truncated")


async def test_an_error_after_which_the_engine_stays_silent_ends_the_stream_and_the_connection() -> None:
    """Case H50: nobody waits for ever, and nothing spins."""
    limit = b'data: {"error":{"message":"slow down","type":"rate","param":null,"code":429}}\n\n'
    script: list[Step] = [Read(), Send(streamed(ROLE, text("a"), text("b"), text("c"), limit))]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        before = time.process_time()
        answer = await ask(gateway.url)
        assert answer.text == "abc"
        assert answer.error["message"] == "slow down"
        assert not answer.done
        assert time.process_time() - before < 0.7
        await until(lambda: engine.open_peers == 0)


async def test_a_finish_that_is_said_twice_leaves_once() -> None:
    """Case H24."""
    script: list[Step] = [
        Read(),
        Send(streamed(ROLE, text("a"), finish("tool_calls"), finish("tool_calls"), DONE) + END),
    ]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert answer.body.count(b'"tool_calls"') == 1
        assert answer.done


async def test_an_empty_finish_is_no_finish() -> None:
    """Case H24."""
    empty = text("a").replace(b'"finish_reason":null', b'"finish_reason":""')
    script: list[Step] = [Read(), Send(streamed(ROLE, empty) + END)]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        assert (await ask(gateway.url)).error["code"] == "engine_truncated"


@pytest.mark.parametrize("kind", [b"application/json", b"text/html", b""])
async def test_an_answer_that_is_no_stream_is_not_called_one(kind: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ncontent-length: 2\r\n\r\n{}"
    async with ScriptedEngine([Read(), Send(head)]) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert (answer.status, answer.error["code"]) == (502, "engine_broke")


WHOLE: dict[str, tuple[list[Step], int, str | None]] = {
    "reset": ([Send(ok(b"{}" * 50)[:-30]), Reset()], 502, "engine_broke"),
    "cut": ([Send(ok(b"{}" * 50)[:-30]), Fin()], 502, "engine_broke"),
    "not JSON": ([Send(ok(b"<html>"))], 502, "engine_broke"),
    "empty": ([Send(ok(b""))], 502, "engine_broke"),
    "no HTTP": ([Send(b"hello\r\n\r\n")], 502, "engine_broke"),
    "closed": ([Fin()], 502, "engine_broke"),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_answer_that_is_none_is_a_502(name: str) -> None:
    """Case H7."""
    steps, status, code = WHOLE[name]
    async with ScriptedEngine([Read(), *steps]) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url, body(stream=False))
        assert (answer.status, answer.error["code"]) == (status, code)


async def test_numbers_that_json_does_not_know_go_through_as_they_are() -> None:
    """Case H43: in a whole answer and in a stream."""
    said = b'{"data":[NaN,-Infinity],"usage":{"prompt_tokens":1}}'
    strange = text("a").replace(b'"finish_reason"', b'"logprobs":{"x":-Infinity},"finish_reason"')
    scripts: list[Step] = [Read(), Send(ok(said)), Read(), Send(streamed(ROLE, strange, finish(), DONE) + END)]
    async with ScriptedEngine(scripts) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url, body(stream=False, service_tier="auto"))
        assert (answer.status, answer.body) == (200, said)
        streamed_answer = await ask(gateway.url)
        assert b"-Infinity" in streamed_answer.body
        assert streamed_answer.done


async def test_the_next_request_on_the_clients_connection_is_served_after_an_error_in_a_stream() -> None:
    """The framing of a stream that failed is whole."""
    scripts: list[list[Step]] = [
        [Read(), Send(PARTIAL), Sleep(0.02), Reset()],
        [Read(), Send(streamed(ROLE, text("b"), finish()) + END)],
    ]
    async with ScriptedEngine(*scripts) as engine, gateway_on(engine) as gateway:
        for expected in ("engine_broke", "[DONE]"):
            answer = await gateway.http.post(CHAT, content=body(), headers={"content-type": "application/json"})
            assert expected in answer.text


async def test_an_event_larger_than_the_limit_ends_the_stream_and_one_below_it_arrives_whole() -> None:
    """Case H56: two megabytes pass in pieces of 16 KB, a line without an end does not fill the memory."""
    large = text("x" * 2**21)
    pieces = [chunk(large[i : i + 16384]) for i in range(0, len(large), 16384)]
    good = stream_head() + chunk(ROLE) + b"".join(pieces) + chunk(finish()) + chunk(DONE) + END
    endless = stream_head() + chunk(ROLE) + chunk(b"data: " + b"x" * 65536) * 80
    script: list[Step] = [Read(), Send(good), Read(), Send(endless)]
    async with ScriptedEngine(script) as engine, gateway_on(engine, limits={"event_bytes": 2**22}) as gateway:
        answer = await ask(gateway.url)
        assert (len(answer.text), answer.done) == (2**21, True)
        answer = await ask(gateway.url)
        assert answer.error["code"] == "engine_broke"
        await until(engine.peers[-1].closed.is_set)


async def test_a_whole_answer_larger_than_the_limit_is_a_502() -> None:
    """Case H56: an answer that is not streamed has a bound too."""
    async with (
        ScriptedEngine([Read(), Send(ok(b" " * 2**16))]) as engine,
        gateway_on(engine, limits={"answer_bytes": 4096}) as gateway,
    ):
        assert (await ask(gateway.url, body(stream=False))).status == 502
