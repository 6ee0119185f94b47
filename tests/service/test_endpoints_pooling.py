"""Embeddings, rerank, score, tokenize, detokenize and single models: whole answers by the same path."""

import json

import openai
import pytest

from app.sim import SimSettings
from gateway.endpoints import ENDPOINTS
from tests.fakes.running_gateway import asked, gateway_on_sim

MODEL = "gpt-oss-20b"
RERANK = {"model": MODEL, "query": "a", "documents": ["a", "b"]}
SCORE = {"model": MODEL, "text_1": "a", "text_2": ["a", "b"]}
BODIES = {
    "/v1/embeddings": {"model": MODEL, "input": ["a", "b"]},
    "/rerank": RERANK,
    "/v1/rerank": RERANK,
    "/v2/rerank": RERANK,
    "/score": SCORE,
    "/v1/score": SCORE,
    "/tokenize": {"model": MODEL, "prompt": "hello there"},
    "/detokenize": {"model": MODEL, "tokens": [1000, 1001]},
    "/v1/messages/count_tokens": {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]},
}


def test_every_endpoint_that_is_never_streamed_is_tried_here() -> None:
    assert set(BODIES) == {path for path, endpoint in ENDPOINTS.items() if endpoint.dialect is None}


@pytest.mark.parametrize("path", BODIES)
async def test_an_answer_is_the_engines_own_byte_for_byte(path: str) -> None:
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(path, json=BODIES[path])
        assert answer.status_code == 200
        assert answer.headers["x-tokenlane-lane"] == "lowlatency"
        direct = await gateway.http.post(engine.url + path, json=BODIES[path])
        assert without_ids(answer.json()) == without_ids(direct.json())


def without_ids(answer: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in answer.items() if key not in {"id", "created"}}


@pytest.mark.parametrize("path", BODIES)
async def test_a_request_for_the_batch_lane_goes_there_without_the_suffix(path: str) -> None:
    async with gateway_on_sim() as (gateway, engine):
        answer = await gateway.http.post(path, json={**BODIES[path], "model": f"{MODEL}:batch", "stream": True})
        assert answer.headers["x-tokenlane-lane"] == "batch"
        assert json.loads(engine.requests[-1].body)["model"] == MODEL


async def test_embeddings_of_the_official_client_are_the_same_as_numbers_and_packed() -> None:
    """The client asks for base64 unless told otherwise."""
    async with gateway_on_sim() as (gateway, _engine):
        packed = await gateway.openai.embeddings.create(model=MODEL, input="a")
        numbers = await gateway.openai.embeddings.create(model=MODEL, input="a", encoding_format="float")
        assert packed.data[0].embedding == pytest.approx(numbers.data[0].embedding)
        await gateway.settles()
        assert 'tokenlane_requests_total{endpoint="/v1/embeddings"' in (await gateway.http.get("/metrics")).text


async def test_one_model_is_had_by_its_name_and_an_unknown_one_is_not_found() -> None:
    async with gateway_on_sim() as (gateway, engine):
        assert (await gateway.openai.models.retrieve(MODEL)).id == MODEL
        for name in ("nope", "openai/gpt-oss-20b", "a:b"):
            with pytest.raises(openai.NotFoundError) as error:
                await gateway.openai.models.retrieve(name)
            assert error.value.code == "model_not_found"
        assert {request.path for request in asked(engine)} == {"/v1/models"}


async def test_a_model_whose_name_has_slashes_is_found() -> None:
    async with gateway_on_sim(SimSettings(model="openai/gpt-oss-20b")) as (gateway, _engine):
        assert (await gateway.openai.models.retrieve("openai/gpt-oss-20b")).id == "openai/gpt-oss-20b"
        assert (await gateway.http.get("/v1/models/openai/gpt-oss-20b")).status_code == 200
