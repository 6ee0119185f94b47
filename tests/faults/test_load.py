"""More than there is room for, and for long: what grows, what is refused, and that nothing is left afterwards."""

import asyncio
import gc
import random
import time
from itertools import pairwise
from pathlib import Path

from app.sim import SimSettings
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim
from tests.fakes.scripted_engine import Read, ScriptedEngine, Send, Sleep, Step
from tests.faults.asking import (
    DONE,
    END,
    ROLE,
    Client,
    ask,
    body,
    finish,
    gateway_on,
    metrics,
    request,
    streamed,
    text,
    until,
)

QUICK = SimSettings(ttft_ms=0, itl_ms=0, tokens=4)


async def churn(gateway: RunningGateway, clients: int, dice: random.Random) -> None:
    """So many clients, each of which leaves within 150 ms."""

    async def one() -> None:
        async with Client(gateway.url) as client:
            await client.send(request())
            await asyncio.sleep(dice.random() * 0.15)
            client.leave(reset=dice.random() < 0.5)

    await asyncio.gather(*(one() for _ in range(clients)))


async def test_clients_that_leave_at_any_moment_cost_no_slot() -> None:
    """Case H1: 96 clients on 32 slots, an engine that accepts late; twenty rounds, then 32 at once are served."""
    sim = SimSettings(ttft_ms=300, itl_ms=1, tokens=4, accept_delay_ms=50)
    async with gateway_on_sim(sim) as (gateway, engine):
        dice = random.Random(1)
        for _ in range(20):
            await churn(gateway, 96, dice)
            await gateway.settles()
        engine.set(accept_delay_ms=0, ttft_ms=1)
        answers = await asyncio.gather(*(ask(gateway.url) for _ in range(32)))
        assert all(a.done for a in answers)
        await gateway.settles()
        statistics = gateway.service.gateway.client.statistics()[engine.url]
        assert statistics.connecting == statistics.in_use == 0


async def test_a_crowd_is_admitted_as_far_as_it_goes_and_the_rest_is_told_when_to_come_back() -> None:
    """Cases H53 and H54: 400 at once, some of whom leave; nobody gets a 500, never more connections than configured."""
    lanes = {"lowlatency": {"pool_size": 16, "queue": 64}}
    async with gateway_on_sim(SimSettings(ttft_ms=10, itl_ms=1, tokens=8), lanes=lanes) as (gateway, engine):
        leaving = asyncio.create_task(churn(gateway, 20, random.Random(2)))
        asked = [ask(gateway.url, body(stream=bool(number % 2))) for number in range(400)]
        answers = await asyncio.gather(*asked)
        await leaving
        assert {a.status for a in answers} == {200, 429}
        assert sum(a.status == 200 for a in answers) >= 16
        assert all(int(a.headers["retry-after"]) >= 1 for a in answers if a.status == 429)
        assert gateway.service.gateway.client.statistics()[engine.url].open <= 16
        assert (await ask(gateway.url)).done


async def test_questions_of_operation_are_answered_while_every_slot_is_taken() -> None:
    """Case H53."""
    async with gateway_on_sim(SimSettings(ttft_ms=60000), lanes={"lowlatency": {"pool_size": 8}}) as (gateway, engine):
        clients = [Client(gateway.url) for _ in range(12)]
        for client in clients:
            await client.__aenter__()
            await client.send(request())
        await until(lambda: engine.running == 8)
        for path in ("/v1/models", "/health", "/ready", "/metrics"):
            assert (await gateway.http.get(path)).status_code == 200
        assert 'tokenlane_waiting{lane="lowlatency"} 4.0' in await metrics(gateway)
        for client in clients:
            client.leave()


async def test_what_waits_does_not_make_a_request_dearer() -> None:
    """Cases H51 and H52: the cost of a request is the same with ten and with four hundred in the queue."""

    async def cost(waiting: int) -> float:
        lanes = {"lowlatency": {"pool_size": 8, "queue": 1000}}
        async with gateway_on_sim(QUICK, lanes=lanes) as (gateway, _engine):
            await ask(gateway.url)
            before = time.process_time()
            answers = await asyncio.gather(*(ask(gateway.url) for _ in range(waiting)))
            assert all(a.done for a in answers)
            return (time.process_time() - before) / waiting

    few = min([await cost(40) for _ in range(2)])
    many = await cost(400)
    assert many < few * 3


async def test_a_token_costs_the_same_at_the_end_of_a_long_stream_as_at_its_start() -> None:
    """Case H55: nothing is added up, copied or looked through again."""

    async def cost(tokens: int) -> float:
        events = b"".join(text(f"w{n} ") for n in range(tokens))
        script: list[Step] = [Read(), Send(streamed(ROLE, events, finish(), DONE) + END)]
        async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
            before = time.process_time()
            assert (await gateway.http.post("/v1/chat/completions", content=body(), headers=JSON)).status_code == 200
            return (time.process_time() - before) / tokens

    await cost(1000)
    assert await cost(40000) < 4 * await cost(4000)


JSON = {"content-type": "application/json"}


async def test_other_streams_keep_their_pace_while_a_huge_body_and_a_huge_event_pass() -> None:
    """Cases H41 and H56."""
    sim = SimSettings(ttft_ms=1, itl_ms=20, tokens=40)
    async with gateway_on_sim(sim) as (gateway, _engine), Client(gateway.url) as client:
        await client.send(request())
        await client.until(b"data: ")
        content = body(stream=False, max_tokens=1, padding="x" * 4_000_000)
        answers = asyncio.gather(*(ask(gateway.url, content) for _ in range(3)))
        times = []
        while await client.read():
            times.append(asyncio.get_running_loop().time())
        assert {a.status for a in await answers} == {200}
        gaps = sorted(b - a for a, b in pairwise(times))
        assert gaps[len(gaps) // 2] < 0.2


async def test_memory_is_flat_after_two_thousand_streams() -> None:
    """Case H65: with some that fail and some that leave."""

    async def some(count: int) -> None:
        for number in range(0, count, 20):
            fault = {"x_sim_fault": "cut@2"} if number % 200 == 0 else {}
            await asyncio.gather(*(ask(gateway.url, **fault) for _ in range(20)))

    health = {"failures": 1000, "interval_s": 3600}
    async with gateway_on_sim(QUICK, health=health) as (gateway, _engine):
        await some(600)
        gc.collect()
        memory, descriptors = resident(), open_files()
        text_before = len(await metrics(gateway))
        await some(1400)
        await gateway.settles()
        gc.collect()
        assert resident() - memory < 8 * 2**20
        assert open_files() <= descriptors + 4
        assert len(await metrics(gateway)) < text_before * 1.2


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def measured(gateway: RunningGateway, what: str) -> float:
    """A value of the lane's metric, 0 where there is none."""
    name = f'tokenlane_{what}{{lane="lowlatency"}} '
    return sum(float(x.removeprefix(name)) for x in (await metrics(gateway)).splitlines() if x.startswith(name))


def thought(content: str) -> bytes:
    return text(content).replace(b'"content"', b'"reasoning"')


CALL = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}\n\n'


async def test_ttft_counts_to_the_first_token_of_any_kind_and_not_to_the_role() -> None:
    """Case H64: reasoning and a tool call are tokens; pings and the role are none."""
    for first in (thought("hm"), text("a"), CALL):
        steps: list[Step] = [Read(), Send(streamed(ROLE)), Sleep(0.15), Send(chunked(first)), Sleep(0.4)]
        script: list[Step] = [*steps, Send(chunked(text("b")) + chunked(finish()) + chunked(DONE) + END)]
        async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
            assert (await ask(gateway.url)).done
            await gateway.settles()
            assert await measured(gateway, "ttft_seconds_count") == 1
            total = await measured(gateway, "ttft_seconds_sum")
            assert 0.15 <= total <= await measured(gateway, "request_duration_seconds_sum") - 0.35


def chunked(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


async def test_a_stream_that_fails_before_its_first_token_is_no_sample_of_ttft() -> None:
    """Case H64."""
    async with gateway_on_sim(QUICK) as (gateway, _engine):
        for fault in ("error_event", "status:500", "close_before_head", "only_done"):
            await ask(gateway.url, x_sim_fault=fault)
        await gateway.settles()
        assert await measured(gateway, "ttft_seconds_count") == 0
