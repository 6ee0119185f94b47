"""Errors in OpenAI's shape and in Anthropic's."""

import json

import pytest

from gateway import errors as e
from gateway.wire import render
from gateway.wire.shapes import ANTHROPIC, OPENAI, TYPES, Said, Shape, status_of
from tests.unit.test_wire_render import example

OPENAIS = b'{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}'
VLLMS = b'{"type":"error","error":{"type":"NotFoundError","message":"m"}}'
ANTHROPICS = b'{"type": "error", "error": {"type": "not_found_error", "message": "m"}, "request_id": "r"}'


@pytest.mark.parametrize("kind", render.ROWS)
def test_every_error_of_ours_has_anthropics_shape_and_a_type_that_anthropic_knows(kind: type[e.GatewayError]) -> None:
    """Case H49."""
    error = e.EngineAnswered(500, b"") if kind is e.EngineAnswered else example(kind)
    for body in (render.answer(error, ANTHROPIC).body, render.event_data(error, ANTHROPIC)):
        read = json.loads(body)
        assert (set(read), read["type"], set(read["error"])) == ({"type", "error"}, "error", {"type", "message"})
        assert read["error"]["type"] in TYPES.values()
    assert render.answer(error, ANTHROPIC).status == render.answer(error).status


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "invalid_request_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_the_type_follows_the_status(status: int, name: str) -> None:
    assert json.loads(ANTHROPIC.body(Said(status, "m", "t")))["error"]["type"] == name


@pytest.mark.parametrize("body", [OPENAIS, VLLMS])
def test_an_engines_error_keeps_its_words_and_gets_anthropics_type(body: bytes) -> None:
    answer = render.answer(e.EngineAnswered(404, body, retry_after="3"), ANTHROPIC)
    assert json.loads(answer.body) == {"type": "error", "error": {"type": "not_found_error", "message": "m"}}
    assert (answer.status, dict(answer.headers)) == (404, {"retry-after": "3"})


def test_an_error_that_has_the_shape_already_leaves_byte_for_byte() -> None:
    assert render.answer(e.EngineAnswered(404, ANTHROPICS), ANTHROPIC).body == ANTHROPICS
    assert render.answer(e.EngineAnswered(400, OPENAIS), OPENAI).body == OPENAIS


@pytest.mark.parametrize("shape", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("status", [404, 405])
def test_a_route_that_the_engine_does_not_have_is_a_404_that_says_so(status: int, shape: Shape) -> None:
    """Case H48: vLLM has no embeddings for a model that generates; its framework says `{"detail":"Not Found"}`."""
    answer = render.answer(e.EngineAnswered(status, b'{"detail":"Not Found"}'), shape)
    assert answer.status == 404
    assert "does not serve this endpoint" in json.loads(answer.body)["error"]["message"]


@pytest.mark.parametrize("status", [401, 403, 407])
def test_the_gateways_own_credentials_are_not_spoken_of(status: int) -> None:
    answer = render.answer(e.EngineAnswered(status, ANTHROPICS), ANTHROPIC)
    assert (answer.status, json.loads(answer.body)["error"]["type"]) == (502, "api_error")


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (b'{"error":{"code":429}}', 429),
        (b'{"error":{"code":42}}', 502),
        (b'{"error":{"code":true}}', 502),
        (b'{"type":"error","code":"server_error","message":"m"}', 502),
        (b'{"type":"error","error":{"type":"overloaded_error"}}', 503),
        (b'{"type":"error","error":{"type":"BadRequestError"}}', 400),
        (b'{"type":"error","error":{"type":["x"]}}', 502),
        (b'{"type":"response.failed","response":{}}', 502),
        (b'{"error":{"code":NaN}}', 502),
        (b"[]", 502),
    ],
)
def test_an_error_event_stands_for_a_status(event: bytes, status: int) -> None:
    """Case H28 (b)."""
    assert status_of(event) == status
