"""One owner a request: each way out, fifty times over, gives everything back, and the next request is served."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from app.sim import SimEngine, SimSettings
from gateway.routing.breaker import EngineOutcome
from gateway.telemetry import TelemetryEvent
from tests.fakes.running_gateway import RunningGateway, running_gateway, settings_for
from tests.faults.asking import Answer, Client, ask, body, request, until

TIMES = 50
SIM = SimSettings(ttft_ms=1, itl_ms=0.2, tokens=8)
SHORT = 0.25

FAULTS: dict[str, tuple[str, set[int], set[int]]] = {
    "normal": ("", {200}, {200}),
    "engine 400": ("status:400", {400}, {400}),
    "engine 401": ("status:401", {502}, {502}),
    "engine 429": ("status:429", {429}, {429}),
    "engine 500": ("status:500", {500}, {500}),
    "engine 503": ("status:503", {503}, {503}),
    "error event first": ("error_event", {500}, {500}),
    "error event later": ("error_event@3", {200}, {500}),
    "error event, left open": ("error_event_open", {500}, {500}),
    "reset before the head": ("close_before_head", {502}, {502}),
    "reset in the stream": ("reset@3", {200}, {502}),
    "cut in an event": ("cut_event@3", {200}, {502}),
    "stall before the head": ("silence_head", {504}, {504}),
    "stall in the stream": ("stall@3", {200}, {504}),
    "garbage": ("garbage@3", {200}, {502}),
    "garbage at once": ("garbage", {502}, {502}),
    "not HTTP": ("bad_http", {502}, {502}),
    "a head without an end": ("huge_header", {502}, {502}),
    "only [DONE]": ("only_done", {502}, {200}),
}


@asynccontextmanager
async def gateway_in_trouble(
    patience: float = 20.0, **changes: object
) -> AsyncIterator[tuple[RunningGateway, SimEngine]]:
    """Ten slots, a breaker that stays closed, and so many seconds for every deadline."""
    lanes = {"lowlatency": {"pool_size": 10}}
    health = {"failures": 1000, "interval_s": 3600}
    async with SimEngine(SIM) as engine:
        timeouts = {"first_token_s": patience, "gap_s": patience}
        settings = settings_for(engine, **{"lanes": lanes, "health": health, "timeouts": timeouts} | changes)
        async with running_gateway(settings) as gateway:
            deadlines = gateway.service.gateway.deadlines
            gateway.service.gateway.deadlines = type(deadlines)(
                deadlines.first_token, deadlines.gap, deadlines.write, whole=patience
            )
            yield gateway, engine


async def many(count: int, act: Callable[[], Awaitable[Answer | None]]) -> list[Answer | None]:
    """As often as that, ten at once."""
    answers = []
    for _ in range(0, count, 10):
        answers += await asyncio.gather(*(act() for _ in range(min(10, count))))
    return answers


async def is_as_before(gateway: RunningGateway, tasks: int) -> None:
    """Nothing is held, no task is left, and as many requests as there are slots are served at once."""
    await gateway.settles()
    await until(lambda: len(asyncio.all_tasks()) <= tasks, lambda: f"tasks: {asyncio.all_tasks()}")
    fresh = await asyncio.gather(*(ask(gateway.url) for _ in range(10)))
    assert [a.status for a in fresh] == [200] * 10
    assert all(a.done for a in fresh)
    await gateway.settles()


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", FAULTS)
async def test_whatever_an_engine_does_everything_is_given_back(name: str, streamed: bool) -> None:
    """Cases H3 and H50."""
    fault, as_stream, as_whole = FAULTS[name]
    headers = {"x_sim_fault": fault} if fault else {}
    times, patience = (TIMES, 20.0) if "stall" not in name else (20, SHORT)
    async with gateway_in_trouble(patience) as (gateway, engine):
        await ask(gateway.url)
        tasks = len(asyncio.all_tasks())
        answers = await many(times, lambda: ask(gateway.url, body(stream=streamed), **headers))
        assert {a.status for a in answers if a} == (as_stream if streamed else as_whole)
        assert all(a.whole for a in answers if a)
        assert engine.running == engine.waiting == 0
        await is_as_before(gateway, tasks)


async def leave_in_stream(gateway: RunningGateway) -> None:
    async with Client(gateway.url) as client:
        await client.send(request(x_sim_tokens="5000"))
        await client.until(b"data: ")
        client.leave(reset=True)


async def leave_in_prefill(gateway: RunningGateway, *, stream: bool = True) -> None:
    async with Client(gateway.url) as client:
        await client.send(request(body(stream=stream), x_sim_ttft_ms="60000"))
        await until(lambda: gateway.held()["leases"])
        await asyncio.sleep(0.005)
        client.leave()


async def leave_in_body(gateway: RunningGateway) -> None:
    async with Client(gateway.url) as client:
        await client.send(request()[:-5])
        await asyncio.sleep(0)
        client.leave()


LEAVING: dict[str, Callable[[RunningGateway], Awaitable[None]]] = {
    "in the stream": leave_in_stream,
    "in prefill": leave_in_prefill,
    "in prefill of a whole answer": lambda gateway: leave_in_prefill(gateway, stream=False),
    "while it sends its body": leave_in_body,
}


@pytest.mark.parametrize("where", LEAVING)
async def test_wherever_a_client_leaves_everything_is_given_back(where: str) -> None:
    """Cases H2 and H3."""
    async with gateway_in_trouble() as (gateway, engine):
        await ask(gateway.url)
        tasks = len(asyncio.all_tasks())
        await many(TIMES, lambda: _leave(where, gateway))
        await until(lambda: engine.running == 0)
        await is_as_before(gateway, tasks)


async def _leave(where: str, gateway: RunningGateway) -> None:
    await LEAVING[where](gateway)


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_a_client_that_leaves_the_queue_gives_its_place_back(streamed: bool) -> None:
    """Cases H2 and H3: the engine never hears of it."""
    async with gateway_in_trouble(lanes={"lowlatency": {"pool_size": 1, "queue": 10}}) as (gateway, engine):
        async with Client(gateway.url) as holder:
            await holder.send(request(x_sim_ttft_ms="60000"))
            await until(lambda: engine.running == 1)
            asked = len(engine.requests)
            for _ in range(TIMES // 10):
                waiting = [Client(gateway.url) for _ in range(10)]
                for client in waiting:
                    await client.__aenter__()
                    await client.send(request(body(stream=streamed)))
                await until(lambda: gateway.held()["waiting"] == 10)
                for client in waiting:
                    client.leave()
                await until(lambda: gateway.held()["waiting"] == 0)
            assert len(engine.requests) == asked
        await gateway.settles()
        assert (await ask(gateway.url)).done


async def test_a_client_that_leaves_while_the_engine_is_being_connected_gives_everything_back() -> None:
    """Case H1: the connection that nobody needs any more may come about later."""
    async with gateway_in_trouble() as (gateway, engine):
        engine.set(accept_delay_ms=20)
        tasks = len(asyncio.all_tasks())

        async def leave_at_once() -> None:
            async with Client(gateway.url) as client:
                await client.send(request())
                await until(lambda: gateway.held()["requests"])
                client.leave()

        await many(TIMES, leave_at_once)
        engine.set(accept_delay_ms=0)
        await is_as_before(gateway, tasks)


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_an_engine_that_refuses_gives_everything_back(streamed: bool) -> None:
    """Case H3."""
    async with gateway_in_trouble() as (gateway, _engine):
        await ask(gateway.url)
        (lane_engine,) = gateway.service.gateway.lanes["lowlatency"].pool.engines
        right, lane_engine.url = lane_engine.url, "http://127.0.0.1:1"
        tasks = len(asyncio.all_tasks())

        async def refused() -> Answer:
            lane_engine.breaker.record(EngineOutcome.SUCCESS, asyncio.get_running_loop().time())
            return await ask(gateway.url, body(stream=streamed))

        answers = await many(TIMES, refused)
        assert {a.status for a in answers if a} == {502}
        lane_engine.url = right
        await is_as_before(gateway, tasks)


def _of_ours(event: TelemetryEvent) -> None:
    raise RuntimeError("a mistake of ours")


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("kind", ["RequestAdmitted", "RequestEnded"])
async def test_a_fault_of_ours_gives_everything_back(kind: str, streamed: bool) -> None:
    """Case H3: whoever listens to the library raises, which the rules forbid."""
    async with gateway_in_trouble() as (gateway, _engine):
        await ask(gateway.url)
        tasks = len(asyncio.all_tasks())
        right = gateway.service.gateway.observer

        def wrong(event: TelemetryEvent) -> None:
            if type(event).__name__ == kind:
                raise RuntimeError("a mistake of ours")
            right(event)

        gateway.service.gateway.observer = wrong
        answers = await many(TIMES, lambda: ask(gateway.url, body(stream=streamed)))
        expected = {200} if kind == "RequestEnded" and streamed else {500}
        assert {a.status for a in answers if a} == expected
        gateway.service.gateway.observer = right
        await is_as_before(gateway, tasks)


async def test_a_strategy_that_fails_ends_its_stream_with_an_event_and_gives_everything_back() -> None:
    """Case H3: a fault of ours in the middle of a stream is not put down to the engine."""
    async with gateway_in_trouble() as (gateway, _engine):
        await ask(gateway.url)
        tasks = len(asyncio.all_tasks())

        async def broken() -> Answer:
            async with Client(gateway.url) as client:
                await client.send(request(x_sim_tokens="500", x_sim_itl_ms="10"))
                await client.until(b"data: ")
                for passage in gateway.service.gateway.live:
                    if passage.committed and passage._buffer is not None:
                        passage._buffer._strategy = Failing()  # type: ignore[assignment]
                return await client.rest()

        answers = await many(TIMES, broken)
        assert {a.error["code"] for a in answers if a} == {"internal_error"}
        assert all(a.whole and not a.done for a in answers if a)
        assert gateway.service.gateway.lanes["lowlatency"].pool.engines[0].breaker._failures == 0
        await is_as_before(gateway, tasks)


class Failing:
    """A strategy that fails at whatever it is asked."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("a mistake of ours")


async def test_five_hundred_short_streams_leave_no_task_and_no_object_behind() -> None:
    """Cases H58 and H59."""
    async with gateway_in_trouble() as (gateway, _engine):
        await many(50, lambda: ask(gateway.url))
        await gateway.settles()
        gc.collect()
        tasks, objects = len(asyncio.all_tasks()), _streams()
        await many(450, lambda: ask(gateway.url))
        await gateway.settles()
        gc.collect()
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        await until(lambda: gc.collect() >= 0 and _streams() <= objects)  # the ticker forgets an alarm within a window


def _streams() -> int:
    kept = {"Passage", "Relay", "TokenBuffer", "TokenStream", "Hangup", "Exchange", "EventWriter"}
    return sum(type(each).__name__ in kept for each in gc.get_objects())
