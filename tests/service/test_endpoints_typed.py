"""Streams of named events, responses and messages, through the gateway: event for event what the engine sent."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.sim import SimSettings
from tests.fakes.player import TRACES, playing
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim

PATHS = ("/v1/responses", "/v1/messages")
CUTS = (0, 1, 7, 100, 1021)
TYPED = sorted(
    trace.name
    for trace in TRACES.iterdir()
    if (trace / "body.sse").is_file() and json.loads((trace / "request.json").read_text())["path"] in PATHS
)
CUT_OFF = {"engine_killed_responses", "sigterm_five_requests_responses"}
BODY: dict[str, dict[str, Any]] = {
    "/v1/responses": {"model": "gpt-oss-20b", "input": "hi"},
    "/v1/messages": {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16},
}


def path_of(trace: str) -> str:
    path: str = json.loads((TRACES / trace / "request.json").read_text())["path"]
    return path


def events(raw: bytes) -> list[tuple[str, Any]]:
    """Name and JSON of each event; comments are left out."""
    read = []
    for block in raw.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if lines:
            read.append((lines["event"], json.loads(lines["data"])))
    return read


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def played() -> AsyncIterator[RunningGateway]:
    async with playing() as (gateway, _):
        yield gateway


async def replay(gateway: RunningGateway, trace: str, cut: int, **more: str) -> bytes:
    headers = {"x-sim-trace": trace, "x-sim-cut": str(cut), "x-tokenlane-buffer": "tokens=64,delay_ms=1000", **more}
    body = {**BODY[path_of(trace)], "stream": True}
    answer = await gateway.http.post(path_of(trace), json=body, headers=headers)
    assert answer.status_code == 200
    return answer.content


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("trace", sorted(set(TYPED) - CUT_OFF))
@pytest.mark.asyncio(loop_scope="module")
async def test_a_recorded_stream_leaves_as_it_came_byte_for_byte(trace: str, cut: int, played: RunningGateway) -> None:
    """Case H29: names and numbers of the events survive, nothing is merged however wide the window, no `[DONE]`."""
    assert await replay(played, trace, cut) == (TRACES / trace / "body.sse").read_bytes()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("trace", sorted(CUT_OFF))
@pytest.mark.asyncio(loop_scope="module")
async def test_a_recorded_stream_that_was_cut_off_ends_with_one_error_event(
    trace: str, cut: int, played: RunningGateway
) -> None:
    """Case H29: the error is numbered as the event that it stands in for."""
    sent = events((TRACES / trace / "body.sse").read_bytes())
    *before, (name, error) = events(await replay(played, trace, cut, **{"x-sim-end": "drop"}))
    assert before == sent
    assert (name, error["type"], error["error"]["code"]) == ("error", "error", "engine_broke")
    assert error["sequence_number"] == sent[-1][1]["sequence_number"] + 1


def test_there_are_recordings() -> None:
    assert len(TYPED) > 12


def numbered(*kinds: str, last: dict[str, Any]) -> bytes:
    """A stream of these events, numbered, the last one with more in it."""
    stream = b""
    for number, kind in enumerate(kinds):
        body = {"type": kind, "sequence_number": number, "item_id": "i"}
        if kind.endswith(".delta"):
            body["delta"] = "x"
        if number == len(kinds) - 1:
            body |= last
        stream += f"event: {kind}\ndata: {json.dumps(body)}\n\n".encode()
    return stream


KINDS = (
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    *["response.reasoning_text.delta"] * 5,
    *["response.output_text.delta"] * 9,
    "response.output_text.done",
)
ENDINGS = {
    "completed": ("response.completed", {"response": {"status": "completed", "text": "y" * 80_000}}),
    "incomplete": ("response.incomplete", {"response": {"status": "incomplete"}}),
    "failed": ("response.failed", {"response": {"status": "failed", "error": {"code": "x", "message": "m"}}}),
}


@pytest.mark.parametrize("done", [b"", b"data: [DONE]\n\n"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_every_ending_of_a_response_is_the_last_event_and_the_connection_closes_promptly(
    ending: str, done: bytes
) -> None:
    """Case H29: the terminal event, 80 KB of it in six writes, and no `[DONE]`, which only chat's clients know."""
    kind, more = ENDINGS[ending]
    calls = ("response.function_call_arguments.delta",) * 3
    stream = numbered(*KINDS, *calls, kind, last=more)
    async with playing(stream + done) as (gateway, _):
        assert await replay(gateway, "responses_stream", len(stream) // 6) == stream


async def test_a_done_in_place_of_the_terminal_event_does_not_pass_for_an_ending() -> None:
    """Case H29: a client that waits for `response.completed` must not wait for ever."""
    stream = numbered(*KINDS, last={})
    async with playing(stream + b"data: [DONE]\n\n") as (gateway, _):
        *before, (name, error) = events(await replay(gateway, "responses_stream", 0))
        assert before == events(stream)
        assert (name, error["code"]) == ("error", "engine_truncated")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", ["cut@3", "cut_event@3", "reset@3", "no_finish", "garbage@3"])
async def test_an_engine_that_breaks_off_leaves_one_error_event_in_the_shape_of_the_api(path: str, fault: str) -> None:
    """Cases H28 and H29."""
    async with gateway_on_sim() as (gateway, _engine):
        answer = await gateway.http.post(path, json={**BODY[path], "stream": True}, headers={"x-sim-fault": fault})
        *before, (name, error) = events(answer.content)
        assert name == "error"
        assert all(kind != "error" for kind, _ in before)
        if path == "/v1/messages":
            assert set(error) == {"type", "error"}
            assert set(error["error"]) == {"type", "message"}
            assert error["error"]["type"] == "api_error"
        else:
            assert error["sequence_number"] == len(before)
            assert {"message", "code", "param", "error"} <= set(error)


@pytest.mark.parametrize("path", PATHS)
async def test_an_engines_own_error_event_is_the_last_one(path: str) -> None:
    async with gateway_on_sim() as (gateway, _engine):
        headers = {"x-sim-fault": "error_event@3"}
        answer = await gateway.http.post(path, json={**BODY[path], "stream": True}, headers=headers)
        told = [name for name, _ in events(answer.content)]
        assert told.index("error") == len(told) - 1


async def test_an_error_before_the_first_event_of_a_message_is_a_true_status() -> None:
    """Case H28 (b)."""
    async with gateway_on_sim() as (gateway, _engine):
        body = {**BODY["/v1/messages"], "stream": True}
        answer = await gateway.http.post("/v1/messages", json=body, headers={"x-sim-fault": "error_event@0"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_that_waits_is_pinged_with_comments(path: str) -> None:
    sim = SimSettings(ttft_ms=120, itl_ms=0, tokens=2)
    timeouts = {"commit_after_s": 0.02, "ping_s": 0.02}
    async with gateway_on_sim(sim, timeouts=timeouts) as (gateway, _engine):
        answer = await gateway.http.post(path, json={**BODY[path], "stream": True})
        assert answer.content.count(b": ping\n\n") >= 2
        assert events(answer.content)[-1][0] in {"response.completed", "message_stop"}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_leaves_ends_the_engines_work(path: str, streamed: bool) -> None:
    async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=20, tokens=500)) as (gateway, engine):
        body = {**BODY[path], "max_tokens": 500, "stream": streamed}
        if streamed:
            async with gateway.http.stream("POST", path, json=body) as answer:
                async for _ in answer.aiter_bytes():
                    break
        else:
            with pytest.raises(httpx.ReadTimeout):
                await gateway.http.post(path, json=body, timeout=0.1)
        await gateway.settles()
        await engine.settled(0)


@pytest.mark.parametrize("path", PATHS)
async def test_the_time_to_the_first_token_and_the_tokens_are_counted(path: str) -> None:
    """Case H64: named deltas are tokens."""
    async with gateway_on_sim() as (gateway, _engine):
        for streamed in (True, False):
            await gateway.http.post(path, json={**BODY[path], "max_output_tokens": 16, "stream": streamed})
        await gateway.settles()
        metrics = (await gateway.http.get("/metrics")).text
        assert f'endpoint="{path}"' in metrics
        assert 'tokenlane_ttft_seconds_count{lane="lowlatency"} 1.0' in metrics
        assert 'tokenlane_tokens_total{kind="completion",lane="lowlatency"} 32.0' in metrics
