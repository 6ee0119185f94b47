"""`gateway/upstream/engines`: one suite for every kind, and what is special of each."""

import pytest

from gateway.upstream.engines import KINDS

PRIVATE = [
    "authorization",
    "Authorization",
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
    assert not KINDS[name].forwards(header)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_told_what_ties_a_request_to_its_trace(name: str) -> None:
    assert KINDS[name].forwards("X-Request-ID")
    assert KINDS[name].forwards("traceparent")


def test_only_the_simulator_is_told_how_to_behave() -> None:
    assert KINDS["sim"].forwards("X-Sim-TTFT-Ms")
    assert not KINDS["vllm"].forwards("x-sim-ttft-ms")
