"""`/v1/responses` with the official client, and stored responses, which live on one engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from app.sim import SimEngine, SimSettings
from tests.fakes.running_gateway import RunningGateway, asked, gateway_on_sim, running_gateway, settings_for

MODEL = "gpt-oss-20b"
QUICK = SimSettings(ttft_ms=1, itl_ms=0.5, tokens=12)


@asynccontextmanager
async def two_engines(**changes: Any) -> AsyncIterator[tuple[RunningGateway, SimEngine, SimEngine]]:
    """A gateway whose lowlatency lane has one engine and whose batch lane another."""
    async with SimEngine(QUICK) as quick, SimEngine(QUICK) as slow:
        settings = settings_for(quick, **changes)
        lanes = {
            name: lane.model_dump() | {"engines": [{"url": engine.url, "kind": "sim", "name": name}]}
            for (name, lane), engine in zip(settings.lanes.items(), (quick, slow), strict=True)
        }
        async with running_gateway(settings.model_validate(settings.model_dump() | {"lanes": lanes})) as gateway:
            yield gateway, quick, slow


def generated(engine: SimEngine) -> int:
    return sum(request.path == "/v1/responses" for request in engine.requests)


async def test_a_response_is_the_engines_own_whole_and_as_a_stream() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        client = gateway.openai.responses
        whole = await client.create(model=MODEL, input="hi", max_output_tokens=9)
        assert (whole.status, whole.usage and whole.usage.output_tokens) == ("incomplete", 9)
        events = [e async for e in await client.create(model=MODEL, input="hi", max_output_tokens=9, stream=True)]
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text == whole.output_text != ""
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[-1].type == "response.completed"


async def test_the_official_clients_helper_for_streams_assembles_the_whole_response() -> None:
    tools: Any = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}]
    async with gateway_on_sim() as (gateway, _engine):
        async with gateway.openai.responses.stream(model=MODEL, input="hi", tools=tools) as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_response()
        assert [item.type for item in final.output] == ["function_call"]


async def test_fields_that_nobody_here_knows_reach_the_engine_as_they_came() -> None:
    """Case H44."""
    body = b'{"model":"gpt-oss-20b", "input":"hi","zzz":{"a":[1,null,1e-7]},"seed":9223372036854775807,"top_k":1.0}'
    async with gateway_on_sim() as (gateway, engine):
        await gateway.http.post("/v1/responses", content=body, headers={"content-type": "application/json"})
        assert asked(engine)[-1].body == body


@pytest.mark.parametrize(
    ("more", "lane", "tier"),
    [
        ({"service_tier": "flex"}, "batch", "flex"),
        ({"service_tier": "auto"}, "lowlatency", "default"),
        ({"model": f"{MODEL}:batch"}, "batch", "auto"),
        ({"extra_headers": {"x-tokenlane-lane": "batch"}}, "batch", "auto"),
    ],
)
async def test_a_response_goes_to_the_lane_that_is_asked_for(more: dict[str, Any], lane: str, tier: str) -> None:
    """Case H45: the model in the answer is the engine's, without the lane."""
    async with gateway_on_sim() as (gateway, _engine):
        asked_for = {"model": MODEL, "input": "hi", **more}
        raw = await gateway.openai.responses.with_raw_response.create(**asked_for)
        answer = raw.parse()
        assert (raw.headers["x-tokenlane-lane"], answer.service_tier, answer.model) == (lane, tier, MODEL)


class TestStoredResponses:
    """Case H47."""

    async def test_what_goes_on_from_a_response_goes_to_its_engine_whatever_the_lane(self) -> None:
        async with two_engines() as (gateway, quick, slow):
            first = await gateway.openai.responses.create(model=f"{MODEL}:batch", input="hi", store=True)
            for _ in range(3):
                next_ = await gateway.openai.responses.create(model=MODEL, input="on", previous_response_id=first.id)
                assert next_.previous_response_id == first.id
            assert (generated(quick), generated(slow)) == (0, 4)
            assert not [r for r in (*quick.requests, *slow.requests) if r.path.startswith("/v1/responses/")], "known"

    async def test_a_response_is_found_by_its_id_while_it_is_streamed(self) -> None:
        async with two_engines() as (gateway, quick, slow):
            stream = await gateway.openai.responses.create(
                model=MODEL, input="hi", stream=True, extra_headers={"x-tokenlane-lane": "batch"}
            )
            async for event in stream:
                if event.type == "response.created":
                    found = await gateway.openai.responses.retrieve(event.response.id)
                    assert found.id == event.response.id
            assert not [request for request in quick.requests if request.path.startswith("/v1/responses")]
            assert generated(slow) == 1

    async def test_a_gateway_that_has_just_started_asks_the_engines_who_keeps_a_response(self) -> None:
        async with two_engines() as (gateway, quick, slow):
            direct = await gateway.http.post(f"{slow.url}/v1/responses", json={"model": MODEL, "input": "hi"})
            response_id = direct.json()["id"]
            assert (await gateway.openai.responses.retrieve(response_id)).id == response_id
            await gateway.openai.responses.create(model=MODEL, input="on", previous_response_id=response_id)
            assert (generated(quick), generated(slow)) == (0, 2)

    async def test_with_its_engine_down_it_is_a_503_and_never_another_engines_answer(self) -> None:
        async with two_engines() as (gateway, quick, slow):
            kept = await gateway.openai.responses.create(model=f"{MODEL}:batch", input="hi")
            await slow.close()
            client = gateway.openai.responses
            for ask in (
                client.create(model=MODEL, input="on", previous_response_id=kept.id),
                client.create(model=MODEL, input="on", previous_response_id=kept.id, stream=True),
                client.retrieve(kept.id),
                client.cancel(kept.id),
            ):
                with pytest.raises(openai.InternalServerError) as error:
                    await ask
                assert error.value.status_code == 503
                assert error.value.code == "no_engine"
                assert error.value.response.headers["retry-after"]
            assert generated(quick) == 0

    async def test_an_id_that_only_an_engine_that_is_down_may_know_is_a_503(self) -> None:
        async with two_engines() as (gateway, _quick, slow):
            await slow.close()
            with pytest.raises(openai.InternalServerError) as error:
                await gateway.openai.responses.retrieve("resp_elsewhere")
            assert error.value.status_code == 503

    @pytest.mark.parametrize("response_id", ["resp_nope", "..", "a b", "ü", "%2e%2e", "x" * 300, "a?b=c"])
    async def test_an_id_that_no_engine_keeps_is_a_404(self, response_id: str) -> None:
        """Case H12: an id is never a way out of the path."""
        async with two_engines() as (gateway, quick, _slow):
            client = gateway.openai.responses
            with pytest.raises(openai.NotFoundError):
                await client.create(model=MODEL, input="on", previous_response_id=response_id)
            if response_id != "..":  # which the client itself refuses to put into a path
                for ask in (client.retrieve(response_id), client.cancel(response_id)):
                    with pytest.raises(openai.NotFoundError):
                        await ask
            assert generated(quick) == 0
            paths = {request.path for request in asked(quick)}
            assert paths <= {"/v1/responses/resp_nope", "/v1/responses/%2e%2e"}

    async def test_a_response_in_the_background_is_cancelled_where_it_runs_however_full_the_lane(self) -> None:
        lanes = {"lowlatency": {"slots": 1, "queue": 0}}
        async with gateway_on_sim(SimSettings(ttft_ms=2000, tokens=99), lanes=lanes) as (gateway, _engine):
            client = gateway.openai.responses
            running = await client.create(model=MODEL, input="hi", background=True)
            assert running.status == "queued"
            async with gateway.http.stream(
                "POST", "/v1/responses", json={"model": MODEL, "input": "full", "stream": True}
            ):
                assert (await client.retrieve(running.id)).status == "in_progress"
                assert (await client.cancel(running.id)).status == "cancelled"

    async def test_a_response_that_is_not_in_the_background_cannot_be_cancelled_says_the_engine(self) -> None:
        async with gateway_on_sim() as (gateway, _engine):
            done = await gateway.openai.responses.create(model=MODEL, input="hi")
            with pytest.raises(openai.BadRequestError, match="synchronous"):
                await gateway.openai.responses.cancel(done.id)

    async def test_a_stored_response_can_be_had_as_a_stream_from_any_event_on(self) -> None:
        async with two_engines() as (gateway, _quick, _slow):
            kept = await gateway.openai.responses.create(model=f"{MODEL}:batch", input="hi")
            stream = await gateway.openai.responses.retrieve(kept.id, stream=True, starting_after=3)
            events = [event async for event in stream]
            assert events[0].sequence_number == 4
            assert events[-1].type == "response.completed"
