"""How long each thing may take: the connect, the first token, a gap, a whole answer; and never a stream as a whole."""

import socket
from contextlib import AsyncExitStack

import pytest

from app.sim import SimSettings
from tests.fakes.running_gateway import gateway_on_sim
from tests.fakes.scripted_engine import Read, ScriptedEngine, Send, Sleep, Step, chunk, stream_head
from tests.faults.asking import DONE, END, ROLE, ask, body, finish, gateway_on, streamed, text, until

PINGS: list[Step] = [Send(chunk(b": keep-alive\n\n")), Sleep(0.02)] * 400


@pytest.mark.parametrize("opened", [False, True], ids=["status", "event"])
@pytest.mark.parametrize("head", [False, True], ids=["before the head", "after the head"])
async def test_an_engine_without_a_first_token_in_time_is_a_504_and_is_hung_up_on(head: bool, opened: bool) -> None:
    """Cases H10 (b) and H36 (e): asked once, closed by us."""
    script: list[Step] = [Read(), *([Send(stream_head())] if head else [])]
    timeouts = {"first_token_s": 0.2, "commit_after_s": 0.05 if opened else 60}
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=timeouts) as gateway:
        answer = await ask(gateway.url)
        assert answer.status == (200 if opened else 504)
        assert answer.error["code"] == "engine_timeout"
        await until(lambda: engine.open_peers == 0)
        assert len(engine.requests) == 1


async def test_an_engine_that_sends_comments_alone_has_no_first_token() -> None:
    """Case H4."""
    script: list[Step] = [Read(), Send(stream_head()), *PINGS]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts={"first_token_s": 0.3}) as gateway:
        assert (await ask(gateway.url)).status == 504


async def test_a_gap_that_is_too_long_ends_the_stream_with_an_event() -> None:
    """Case H36 (f)."""
    script: list[Step] = [Read(), Send(streamed(ROLE, text("a"), text("b"))), *PINGS]
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts={"gap_s": 0.3}) as gateway:
        answer = await ask(gateway.url)
        assert (answer.text, answer.error["code"], answer.done) == ("ab", "engine_timeout", False)
        await until(lambda: engine.open_peers == 0)


async def test_a_stream_may_last_many_times_as_long_as_every_deadline() -> None:
    """Case H36 (a) (b) (c): no limit on the whole of it."""
    pieces = [step for _ in range(10) for step in (Sleep(0.1), Send(chunk(text("x"))))]
    script: list[Step] = [Read(), Send(streamed(ROLE)), *pieces, Send(chunk(finish()) + chunk(DONE) + END)]
    timeouts = {"gap_s": 0.5, "first_token_s": 0.5, "write_deadline_s": 0.5}
    async with ScriptedEngine(script) as engine, gateway_on(engine, timeouts=timeouts) as gateway:
        answer = await ask(gateway.url)
        assert (answer.text, answer.done) == ("x" * 10, True)


async def test_a_whole_answer_that_does_not_come_in_time_is_a_504() -> None:
    """Case H36."""
    async with gateway_on_sim(SimSettings(ttft_ms=60000), timeouts={"answer_s": 0.1}) as (gateway, engine):
        answer = await ask(gateway.url, body(stream=False))
        assert (answer.status, answer.error["code"]) == (504, "engine_timeout")
        await until(lambda: engine.running == 0)


async def test_an_engine_that_does_not_take_the_connection_is_left_for_another_one() -> None:
    """Case H36 (d): a black hole; the connect has a deadline of its own."""
    good: list[Step] = [Read(), Send(streamed(ROLE, text("a"), finish(), DONE) + END)]
    async with AsyncExitStack() as stack:
        hole = stack.enter_context(socket.socket())
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        for _ in range(4):  # more than the system takes before it drops
            taken = socket.socket()
            stack.callback(taken.close)
            taken.setblocking(False)
            taken.connect_ex(hole.getsockname())
        engine = await stack.enter_async_context(ScriptedEngine(good))
        gateway = await stack.enter_async_context(gateway_on(engine, engine, timeouts={"connect_s": 0.2}))
        gateway.service.gateway.lanes["lowlatency"].pool.engines[0].url = f"http://127.0.0.1:{hole.getsockname()[1]}"
        assert (await ask(gateway.url)).text == "a"
        assert not gateway.service.gateway.lanes["lowlatency"].pool.engines[0].healthy
