"""Who keeps which response."""

import asyncio

import pytest

from gateway.errors import NoEngine, ResponseNotFound
from gateway.routing.breaker import Breaker
from gateway.routing.pool import Engine
from gateway.stored import StoredResponses, serving
from gateway.upstream.client import EngineClient
from tests.fakes.scripted_engine import Again, Read, ScriptedEngine, Send, Sleep, ok

FOUND = [Read(), Send(ok(b'{"id":"resp_1"}'))]
NOT_FOUND = [Read(), Send(ok(b'{"error":{"message":"m"}}', status=b"404 Not Found")), Again()]


async def test_only_the_last_responses_are_remembered() -> None:
    async with ScriptedEngine(NOT_FOUND) as other:
        engine = Engine("a", other.url)
        client = EngineClient()
        stored = StoredResponses(client, [engine], keep=2)
        for response_id in ("resp_1", "resp_2", "resp_1", "resp_3"):
            stored.remember(response_id, engine)
        assert await stored.home("resp_1") is engine
        assert await stored.home("resp_3") is engine
        assert repr(stored) == "<StoredResponses remembers 2 of 2>"
        assert not other.requests
        with pytest.raises(ResponseNotFound):
            await stored.home("resp_2")
        assert [request.target for request in other.requests] == ["/v1/responses/resp_2"]
        await client.aclose()


async def test_an_engine_that_several_lanes_name_is_asked_once() -> None:
    async with ScriptedEngine(NOT_FOUND) as other:
        client = EngineClient()
        stored = StoredResponses(client, [Engine("a", other.url), Engine("b", other.url)])
        with pytest.raises(ResponseNotFound):
            await stored.home("resp_1")
        assert len(other.requests) == 1
        await client.aclose()


async def test_the_answer_of_an_engine_that_hangs_is_not_waited_for() -> None:
    async with ScriptedEngine([Read(), Sleep(60)]) as silent:
        client = EngineClient()
        stored = StoredResponses(client, [Engine("a", silent.url)], timeout=0.05)
        with pytest.raises(NoEngine):
            await stored.home("resp_1")
        await client.aclose()


async def test_an_engine_that_is_out_of_service_is_not_asked() -> None:
    async with ScriptedEngine(FOUND) as other:
        client = EngineClient()
        engine = Engine("a", other.url, breaker=Breaker(unproven=True))
        stored = StoredResponses(client, [engine])
        for _ in range(2):
            with pytest.raises(NoEngine):
                await stored.home("resp_1")
            stored.remember("resp_1", engine)
        assert not other.requests
        await client.aclose()


async def test_many_questions_at_once_wait_for_their_turn() -> None:
    """There are few connections beside the lanes' own, and a probe must find one."""
    async with ScriptedEngine(NOT_FOUND) as other:
        client = EngineClient(control_size=8)
        stored = StoredResponses(client, [Engine("a", other.url)])
        answers = await asyncio.gather(*(stored.home(f"resp_{n}") for n in range(40)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {ResponseNotFound}
        await client.aclose()


def test_the_same_engine_in_another_lane_is_known_by_its_address() -> None:
    one, other, third = Engine("a", "http://x"), Engine("b", "http://x"), Engine("c", "http://y")
    assert serving(one, [third, other]) is other
    assert serving(one, [third]) is None
