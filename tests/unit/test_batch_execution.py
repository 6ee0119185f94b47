"""What an ending of a request means for its line."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway import errors as e
from gateway.admission.choice import LaneNames
from gateway.batch.execution import Cut, Executor, KeyGone, LaneDown, TryAgain
from gateway.batch.jobs import Line, LineState, Result, Usage
from gateway.call import Call
from gateway.keys.key import Key
from gateway.wire.whole import WholeAnswer

LANES = LaneNames(("lowlatency", "batch"), interactive="lowlatency", batch="batch")
BODY = b'{"model":"m:lowlatency","messages":[],"temperature":1.0,"service_tier":"priority"}'
RAW = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":' + BODY + b"}\n"
GOOD = WholeAnswer(200, b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}', "application/json")


class FakeGateway:
    """Ends each request as it was told: with an answer, an error, or never."""

    def __init__(self, ending: WholeAnswer | Exception | None) -> None:
        self.ending = ending
        self.calls: list[Call] = []
        self.begun = asyncio.Event()

    @asynccontextmanager
    async def passage(self, call: Call, cut: Callable[[e.GatewayError], None]) -> AsyncIterator["FakeGateway"]:
        self.calls.append(call)
        yield self

    async def fetch(self) -> WholeAnswer:
        self.begun.set()
        if self.ending is None:
            await asyncio.Event().wait()
        if isinstance(self.ending, Exception):
            raise self.ending
        assert self.ending is not None
        return self.ending


def line(attempts: int = 0) -> Line:
    return Line(1, 1, "a", 0, len(RAW), attempts, "file-1", "/v1/chat/completions")


async def ending(
    told: WholeAnswer | Exception | None, *, attempts: int = 0
) -> tuple[Result | LaneDown | TryAgain | KeyGone, FakeGateway]:
    gateway = FakeGateway(told)
    executor = Executor(gateway, LANES, attempts=3)  # type: ignore[arg-type]  # plays a script
    return await executor.run(line(attempts), RAW, Cut()), gateway


async def test_a_line_is_a_request_of_the_batch_lane_whatever_its_body_asks_for() -> None:
    result, gateway = await ending(GOOD)
    [call] = gateway.calls
    assert (call.lane, call.stream, call.endpoint.path) == ("batch", False, "/v1/chat/completions")
    assert json.loads(call.body) == {"model": "m", "messages": [], "temperature": 1.0}
    assert b'"temperature":1.0' in call.body
    assert isinstance(result, Result)
    output = json.loads(result.output)
    assert (result.state, result.usage) == (LineState.DONE, Usage(3, 0, 4, 0))
    assert (output["custom_id"], output["error"]) == ("a", None)
    assert output["id"].startswith("batch_req_")
    assert output["response"] == {"status_code": 200, "request_id": call.request_id, "body": json.loads(GOOD.body)}


@pytest.mark.parametrize(
    "error",
    [
        e.NoEngine("down", retry_after=2),
        e.LaneFull("full", retry_after=2),
        e.PatienceExhausted("waited", retry_after=2),
        e.Draining("stops", retry_after=2),
        e.EngineUnreachable("refused"),
        e.EngineStale("closed"),
        e.EngineAnswered(429, b"{}", retry_after="2"),
        e.EngineAnswered(503, b"{}"),
        e.EngineAnswered(503, b"{}", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    ],
    ids=repr,
)
async def test_a_lane_that_cannot_be_asked_is_no_failure_of_the_line(error: e.GatewayError) -> None:
    """Case H69."""
    outcome, _ = await ending(error, attempts=99)
    assert isinstance(outcome, LaneDown)
    assert outcome.retry_after in {2.0, None}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (e.EngineAnswered(500, b'{"error":{"message":"x"}}'), 500),
        (e.EngineAnswered(408, b'{"error":{"message":"x"}}'), 408),
        (e.EngineAnswered(401, b'{"error":{"message":"x"}}'), 502),
        (e.EngineBroke("broke"), 502),
        (e.EngineTruncated("cut"), 502),
        (e.EngineSilent("silent"), None),
        (e.EngineStalled("stalled"), 504),
        (WholeAnswer(200, b"<html>", "text/html"), 502),
    ],
    ids=repr,
)
async def test_a_failure_of_the_engine_is_tried_three_times_then_told(
    error: WholeAnswer | e.GatewayError, status: int | None
) -> None:
    for attempts in (0, 1):
        assert isinstance((await ending(error, attempts=attempts))[0], TryAgain)
    last, _ = await ending(error, attempts=2)
    assert isinstance(last, Result)
    assert last.state is LineState.FAILED
    output = json.loads(last.output)
    if status is None:
        assert (output["response"], output["error"]["code"]) == (None, "request_timeout")
    else:
        assert (output["response"]["status_code"], output["error"]) == (status, None)
        assert output["response"]["body"]["error"]["message"]


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_the_lines_own_mistake_is_told_at_once_in_the_engines_words(status: int) -> None:
    body = b'{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":null}}'
    result, gateway = await ending(e.EngineAnswered(status, body))
    assert isinstance(result, Result)
    response = {"status_code": status, "request_id": gateway.calls[0].request_id, "body": json.loads(body)}
    assert (result.state, json.loads(result.output)["response"]) == (LineState.FAILED, response)


async def test_a_field_that_the_gateway_refuses_is_the_lines_own_mistake() -> None:
    gateway = FakeGateway(GOOD)
    executor = Executor(gateway, LANES)  # type: ignore[arg-type]  # plays a script
    result = await executor.run(line(), RAW.replace(b'"priority"', b'"nonsense"'), Cut())
    assert isinstance(result, Result)
    assert json.loads(result.output)["response"]["status_code"] == 400
    assert gateway.calls == []


async def test_a_line_has_the_rights_of_the_key_that_made_its_batch() -> None:
    def key_of(owner: str | None) -> Key:
        return Key(models=("other",)) if owner == "narrow" else Key(lanes=("lowlatency",))

    for owner, status in {"narrow": 404, "chat": 403}.items():
        gateway = FakeGateway(GOOD)
        executor = Executor(gateway, LANES, 3, key_of)  # type: ignore[arg-type]  # plays a script
        result = await executor.run(replace(line(), owner=owner), RAW, Cut())
        assert isinstance(result, Result)
        assert json.loads(result.output)["response"]["status_code"] == status
        assert gateway.calls == []


async def test_a_line_whose_key_is_gone_is_not_run_and_not_failed() -> None:
    def key_of(_: str | None) -> Key:
        raise e.KeyRejected("not valid any more")

    gateway = FakeGateway(GOOD)
    executor = Executor(gateway, LANES, 3, key_of)  # type: ignore[arg-type]  # plays a script
    assert await executor.run(line(), RAW, Cut()) == KeyGone("not valid any more")
    assert gateway.calls == []


async def test_nan_in_an_answer_stays_as_the_engine_wrote_it() -> None:
    result, _ = await ending(WholeAnswer(200, b'{"logprob":NaN}', "application/json"))
    assert isinstance(result, Result)
    assert b'{"logprob":NaN}' in result.output


async def test_a_line_that_is_cut_is_given_back() -> None:
    gateway, cut = FakeGateway(None), Cut()
    running = asyncio.create_task(Executor(gateway, LANES).run(line(), RAW, cut))  # type: ignore[arg-type]
    await gateway.begun.wait()
    cut(e.Draining("stops", retry_after=5))
    assert await running == LaneDown(5)
    cut(e.Draining("again", retry_after=5))


async def test_a_line_that_is_cut_before_it_is_asked_is_given_back_too() -> None:
    gateway, cut = FakeGateway(None), Cut()
    cut(e.Draining("stops", retry_after=5))
    executor = Executor(gateway, LANES)  # type: ignore[arg-type]  # plays a script
    assert await executor.run(line(), RAW, cut) == LaneDown(5)
    assert not gateway.begun.is_set()


async def test_a_cancellation_from_elsewhere_passes_as_it_is() -> None:
    gateway = FakeGateway(None)
    running = asyncio.create_task(Executor(gateway, LANES).run(line(), RAW, Cut()))  # type: ignore[arg-type]
    await gateway.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
