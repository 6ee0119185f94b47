"""`gateway/upstream/engines`: one suite for every kind, and what is special of each."""

import pytest

from gateway.upstream.engines import KINDS

PRIVATE = [
    "authorization",
    "x-api-key",
    "cookie",
    "proxy-authorization",
    "x-forwarded-for",
    "forwarded",
    "host",
]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_listed_under_its_name_and_has_paths(name: str) -> None:
    kind = KINDS[name]
    assert kind.name == name
    assert kind.health_path.startswith("/")
    assert kind.models_path.startswith("/")


@pytest.mark.parametrize("header", PRIVATE)
@pytest.mark.parametrize("name", KINDS)
def test_no_kind_is_told_keys_cookies_or_addresses_of_clients(name: str, header: str) -> None:
    """Case H11."""
    assert KINDS[name].forwarded({header: "x", "traceparent": "t"}) == [("traceparent", "t")]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_told_what_ties_a_request_to_its_trace_if_there_is_one(name: str) -> None:
    assert KINDS[name].forwarded({"traceparent": "t", "accept": "*/*"}) == [("traceparent", "t")]
    assert KINDS[name].forwarded({"accept": "*/*"}) == []


def test_only_the_simulator_is_told_how_to_behave() -> None:
    asked = {"x-sim-ttft-ms": "1", "accept": "*/*"}
    assert KINDS["sim"].forwarded(asked) == [("x-sim-ttft-ms", "1")]
    assert KINDS["vllm"].forwarded(asked) == []
