"""When the status of a stream is decided, and what keeps a silent one open."""

import asyncio
import json
import re
from contextlib import AsyncExitStack

import pytest
from openai import AsyncOpenAI

from app.sim import SimSettings
from tests.fakes.running_gateway import gateway_on_sim
from tests.fakes.scripted_engine import Read, ScriptedEngine, Send, Sleep, Step, chunk, ok
from tests.faults.asking import (
    DONE,
    END,
    ROLE,
    Client,
    ask,
    body,
    counted,
    finish,
    gateway_on,
    request,
    streamed,
    text,
    until,
)

PING = b": ping\n\n"
QUICK = {"commit_after_s": 0.05, "ping_s": 0.05}
LATE = {"commit_after_s": 60, "ping_s": 60}
REFUSAL = b'{"error":{"message":"no such grammar","type":"BadRequestError","param":null,"code":400}}'


async def test_no_status_is_sent_before_the_first_event_or_its_time() -> None:
    script: list[Step] = [Read(), Sleep(0.15), Send(streamed(ROLE, text("a"), finish(), DONE) + END)]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=LATE) as gateway:
        answer = await ask(gateway.url)
        assert PING not in answer.body
        assert answer.done


async def test_a_slow_start_is_opened_and_pinged_and_the_answer_is_whole() -> None:
    """Case H37: in prefill."""
    script: list[Step] = [Read(), Sleep(0.3), Send(streamed(ROLE, text("a"), finish(), DONE) + END)]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=QUICK) as gateway:
        answer = await ask(gateway.url)
        assert answer.body.startswith(PING * 2)
        assert (answer.text, answer.done) == ("a", True)
        assert answer.headers["x-accel-buffering"] == "no"


async def test_a_request_is_pinged_while_it_waits_in_the_queue() -> None:
    """Case H37."""
    lanes = {"lowlatency": {"pool_size": 1}}
    async with (
        gateway_on_sim(SimSettings(ttft_ms=1, tokens=4), lanes=lanes, timeouts=QUICK) as (gateway, engine),
        Client(gateway.url) as holder,
        Client(gateway.url) as waiting,
    ):
        await holder.send(request(x_sim_ttft_ms="60000"))
        await until(lambda: engine.running == 1)
        await waiting.send(request())
        await waiting.until(PING + b"\r\n8\r\n" + PING)
        assert gateway.held()["waiting"] == 1
        holder.leave()
        assert (await waiting.rest()).done


async def test_a_gap_in_the_stream_is_pinged_between_events() -> None:
    """Cases H27 and H37: no ping is ever within an event, though the engine pauses within one."""
    whole = text("b" * 400)
    script: list[Step] = [
        Read(),
        Send(streamed(ROLE, text("a"))),
        Send(chunk(whole[:100])),
        Sleep(0.2),
        Send(chunk(whole[100:])),
        Sleep(0.2),
        Send(chunk(finish()) + chunk(DONE) + END),
    ]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=QUICK) as gateway:
        answer = await ask(gateway.url)
        assert answer.body.count(PING) >= 4
        assert answer.text == "a" + "b" * 400
        for event in answer.body.split(b"\n\n"):
            assert re.fullmatch(rb": ping|data: \{.*\}|data: \[DONE\]|", event)


async def test_a_client_of_openai_reads_a_stream_with_pings() -> None:
    """Case H27."""
    script: list[Step] = [
        Read(),
        Sleep(0.2),
        Send(streamed(ROLE, text("a"))),
        Sleep(0.2),
        Send(chunk(finish()) + chunk(DONE) + END),
    ]
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(ScriptedEngine(script))
        gateway = await stack.enter_async_context(gateway_on(engine, timeouts=QUICK))
        client = await stack.enter_async_context(AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x"))
        stream = await client.chat.completions.create(
            model="gpt-oss-20b", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        said = [chunk.choices[0].delta.content async for chunk in stream]
        assert "a" in said


async def test_pings_can_be_off() -> None:
    """Case H27: the stream is opened all the same."""
    script: list[Step] = [
        Read(),
        Sleep(0.2),
        Send(streamed(ROLE, text("a"))),
        Sleep(0.1),
        Send(chunk(finish()) + chunk(DONE) + END),
    ]
    timeouts = {"commit_after_s": 0.05, "ping_s": 0}
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=timeouts) as gateway:
        async with Client(gateway.url) as client:
            await client.send(request())
            await client.until(b"\r\n\r\n")
            assert b"data:" not in client.got
            answer = await client.rest()
        assert b"ping" not in answer.body
        assert answer.done


@pytest.mark.parametrize("late", [False, True])
async def test_an_error_is_a_status_until_the_stream_is_opened_and_an_event_from_then_on(late: bool) -> None:
    """Case H28: true status or keep-alive; both are counted with the outcome of the error."""
    script: list[Step] = [Read(), *([Sleep(0.2)] if late else []), Send(ok(REFUSAL, status=b"400 Bad Request"))]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=QUICK) as gateway:
        answer = await ask(gateway.url)
        assert answer.status == (200 if late else 400)
        assert json.loads(REFUSAL)["error"] == answer.error
        assert not answer.done
        assert answer.whole
        await gateway.settles()
        assert await counted(gateway, "client_error", answer.status) == 1


async def test_a_refusal_of_the_queue_after_the_stream_was_opened_is_an_event() -> None:
    """Case H37."""
    lanes = {"lowlatency": {"pool_size": 1, "patience_s": 0.2}}
    async with (
        gateway_on_sim(SimSettings(ttft_ms=1), lanes=lanes, timeouts=QUICK) as (gateway, engine),
        Client(gateway.url) as holder,
    ):
        await holder.send(request(x_sim_ttft_ms="60000"))
        await until(lambda: engine.running == 1)
        answer = await ask(gateway.url)
        assert (answer.status, answer.error["code"]) == (200, "queue_timeout")
        assert answer.body.startswith(PING)


async def test_an_answer_that_is_not_streamed_is_not_pinged() -> None:
    """Case H37."""
    script: list[Step] = [Read(), Sleep(0.2), Send(ok(b"{}"))]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=QUICK) as gateway:
        answer = await ask(gateway.url, body(stream=False))
        assert (answer.status, answer.body) == (200, b"{}")


async def test_a_client_that_asks_for_a_compressed_stream_gets_it_plain_and_at_once() -> None:
    """Case H38: nothing waits for a compressor."""
    script: list[Step] = [Read(), Send(streamed(ROLE, text("a")))]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway, Client(gateway.url) as client:
        await client.send(request(accept_encoding="gzip, br, zstd"))
        await client.until(b'"a"')
        assert b"content-encoding" not in client.got
        client.leave()
        await asyncio.sleep(0)
