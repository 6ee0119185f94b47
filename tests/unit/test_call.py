"""Requests as the gateway understands them, endpoint by endpoint."""

import json
from typing import Any

import pytest

from gateway.admission.choice import LaneNames
from gateway.call import Call, read_call, retrieval
from gateway.endpoints import ENDPOINTS, RETRIEVE, shape_of
from gateway.errors import InvalidRequest
from gateway.wire.shapes import ANTHROPIC, OPENAI

LANES = LaneNames(("fast", "slow"), interactive="fast", batch="slow")


def call(path: str, body: dict[str, Any] | bytes, **headers: str) -> Call:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_call(path, raw, headers, lanes=LANES, default="fast", request_id="r")


@pytest.mark.parametrize("path", ENDPOINTS)
def test_lanes_are_chosen_alike_on_every_endpoint(path: str) -> None:
    assert call(path, {"model": "m"}).lane == "fast"
    assert call(path, {"model": "m", "service_tier": "flex"}).lane == "slow"
    assert call(path, {"model": "m"}, **{"x-tokenlane-lane": "slow"}).lane == "slow"
    by_suffix = call(path, {"model": "m:slow"})
    assert (by_suffix.lane, json.loads(by_suffix.body)) == ("slow", {"model": "m"})
    with pytest.raises(InvalidRequest):
        call(path, {"model": "m", "service_tier": "gold"})


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_body_in_which_nothing_has_to_change_goes_on_byte_for_byte(path: str) -> None:
    """Case H44."""
    body = b'{ "model" : "m","zzz":[1.0, 1e-7,18446744073709551616] }'
    assert call(path, body).body == body


DEFAULTS = LaneNames(("fast", "slow"), "fast", "slow", {"fast": {"temperature": 0.0, "seed": 7}})


def defaulted(path: str, body: bytes, **headers: str) -> bytes:
    return read_call(path, body, headers, lanes=DEFAULTS, default="fast", request_id="r").body


def test_a_request_gets_its_lanes_defaults_for_what_it_does_not_say_and_is_otherwise_as_it_was() -> None:
    body = b'{ "model" : "m","zzz":[1.0, 1e-7,18446744073709551616] }'
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
        assert defaulted(path, body) == body[:-2] + b',"temperature":0.0,"seed":7}'


def test_what_the_client_says_stays_a_null_too() -> None:
    body = b'{"temperature":1,"seed":null}'
    assert defaulted("/v1/chat/completions", body) == body
    assert defaulted("/v1/chat/completions", b'{"seed":null}') == b'{"seed":null,"temperature":0.0}'


def test_an_endpoint_gets_the_fields_that_it_has_and_no_others() -> None:
    assert defaulted("/v1/messages", b'{"model":"m"}') == b'{"model":"m","temperature":0.0}'
    others = set(ENDPOINTS) - {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}
    assert {defaulted(path, b'{"model":"m"}') for path in others} == {b'{"model":"m"}'}


def test_a_lane_with_a_priority_puts_it_into_every_request_of_its_own_whatever_the_client_asks_for() -> None:
    lanes = LaneNames(("fast", "slow"), "fast", "slow", priorities={"fast": 0, "slow": 1})

    def sent(path: str, body: bytes, **headers: str) -> bytes:
        return read_call(path, body, headers, lanes=lanes, default="fast", request_id="r").body

    slow = {"x-tokenlane-lane": "slow"}
    assert sent("/v1/chat/completions", b'{"model":"m"}') == b'{"model":"m","priority":0}'
    assert sent("/v1/responses", b'{"model":"m"}', **slow) == b'{"model":"m","priority":1}'
    assert sent("/v1/completions", b'{"priority": -9, "n":1.0}', **slow) == b'{"priority": 1,"n":1.0}'
    assert sent("/v1/messages", b'{"model":"m"}', **slow) == b'{"model":"m"}'


def test_a_lane_without_a_priority_leaves_the_clients_alone() -> None:
    assert defaulted("/v1/chat/completions", b'{"priority":5,"temperature":1,"seed":1}').startswith(b'{"priority":5')


def test_defaults_are_those_of_the_lane_that_is_chosen() -> None:
    slow = {"x-tokenlane-lane": "slow"}
    assert defaulted("/v1/chat/completions", b'{"model":"m"}', **slow) == b'{"model":"m"}'
    suffix = defaulted("/v1/chat/completions", b'{"model":"m:fast"}')
    assert json.loads(suffix) == {"model": "m", "temperature": 0.0, "seed": 7}


@pytest.mark.parametrize("path", ENDPOINTS)
def test_only_what_can_be_streamed_is(path: str) -> None:
    assert call(path, {"stream": True}).stream == (ENDPOINTS[path].dialect is not None)
    assert not call(path, {"stream": False}).stream


def test_the_tier_is_stated_where_the_api_has_a_place_for_it() -> None:
    stated = {path for path in ENDPOINTS if call(path, {"service_tier": "flex"}).tier == "flex"}
    assert stated == {"/v1/chat/completions", "/v1/completions", "/v1/responses"}


@pytest.mark.parametrize("tier", ["auto", "standard_only"])
def test_anthropics_tiers_say_nothing_of_a_lane_and_go_on(tier: str) -> None:
    made = call("/v1/messages", {"service_tier": tier})
    assert (made.lane, json.loads(made.body)) == ("fast", {"service_tier": tier})


def test_only_a_response_goes_on_from_a_stored_one() -> None:
    body = {"previous_response_id": "resp_1"}
    assert [path for path in ENDPOINTS if call(path, body).stored] == ["/v1/responses"]
    with pytest.raises(InvalidRequest):
        call("/v1/responses", {"previous_response_id": 7})


def test_a_stored_response_as_a_stream_is_a_call_for_its_engine() -> None:
    made = retrieval("/v1/responses/r?stream=true", "r", {}, lanes=LANES, default="fast", request_id="i")
    assert (made.endpoint, made.target, made.stored) == (RETRIEVE, "/v1/responses/r?stream=true", "r")
    assert (made.body, made.stream, made.lane) == (b"", True, "fast")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/nope"])
def test_what_is_below_messages_speaks_anthropics_shape(path: str) -> None:
    assert shape_of(path) is ANTHROPIC
    assert all((row.shape is ANTHROPIC) == (shape_of(row.path) is ANTHROPIC) for row in ENDPOINTS.values())
    assert shape_of("/v1/messagesx") is shape_of("/v1/chat/completions") is OPENAI
