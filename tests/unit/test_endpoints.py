"""The allow-list against vLLM's own list of routes: each is served, or stands in the documentation as not served."""

import re
from pathlib import Path

from gateway.endpoints import ENDPOINTS

ROOT = Path(__file__).parent.parent.parent
VLLM_ROUTES = ROOT / "tests" / "unit" / "data" / "vllm_routes.txt"
BY_ID = {"/v1/responses/{response_id}/cancel"}


def routes() -> set[str]:
    """The paths that are posted to, of every part of vLLM that can be switched on."""
    lines = (line.partition("#")[0].strip() for line in VLLM_ROUTES.read_text().splitlines())
    return {line for line in lines if line}


def not_served() -> set[str]:
    section = (ROOT / "docs" / "api.md").read_text().split("## Not served")[1]
    return set(re.findall(r"`(/[^`]+)`", section))


def test_every_route_of_vllm_is_served_or_on_the_list_of_those_that_are_not() -> None:
    """Case H48."""
    assert routes() - set(ENDPOINTS) - BY_ID == not_served()


def test_nothing_is_served_that_vllm_does_not_have() -> None:
    assert set(ENDPOINTS) <= routes()


def test_every_endpoint_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "api.md").read_text().split("## Not served")[0]
    assert [path for path in (*ENDPOINTS, *BY_ID) if f"`{path}`" not in text] == []


def test_no_endpoint_controls_an_engine() -> None:
    """Case H12."""
    control = {"sleep", "wake_up", "pause", "resume", "abort_requests", "collective_rpc", "update_weights", "reset"}
    assert not [path for path in ENDPOINTS if any(word in path for word in control)]
