"""The allow-list against vLLM's own list of routes: each is served, or stands in the documentation as not served."""

import re
from pathlib import Path

from gateway.endpoints import ENDPOINTS
from tests.fakes.running_gateway import gateway_on_sim
from tests.fakes.vllm_routes import routes

ROOT = Path(__file__).parent.parent.parent
BY_ID = {"/v1/responses/{response_id}/cancel"}
OWN = {"/v1/responses/{response_id}", "/v1/models", "/health", "/metrics"}
"""What the gateway answers itself, or asks the engine by the id of a response."""


def not_served() -> set[str]:
    section = (ROOT / "docs" / "api.md").read_text().split("## Not served")[1]
    return set(re.findall(r"`(/[^`]+)`", section)) - OWN


def test_every_route_of_vllm_is_served_or_on_the_list_of_those_that_are_not() -> None:
    """Case H48."""
    assert (routes() - set(ENDPOINTS) - BY_ID) | (routes("GET") - OWN) == not_served()


async def test_no_route_of_vllm_that_is_not_served_reaches_an_engine() -> None:
    """Cases H12, H48."""
    async with gateway_on_sim() as (gateway, engine):
        for path in sorted(not_served()):
            for method in ("GET", "POST", "PUT", "DELETE"):
                answer = await gateway.http.request(method, path)
                assert answer.status_code in {404, 405}, (method, path)
        reached = {(request.method, request.path) for request in engine.requests if request.path in not_served()}
        assert reached <= {("GET", "/v1/responses/render")}, "a GET there asks for the response of that id"


def test_nothing_is_served_that_vllm_does_not_have() -> None:
    assert set(ENDPOINTS) <= routes()


def test_every_endpoint_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "api.md").read_text().split("## Not served")[0]
    assert [path for path in (*ENDPOINTS, *BY_ID) if f"`{path}`" not in text] == []


def test_no_endpoint_controls_an_engine() -> None:
    """Case H12."""
    control = {"sleep", "wake_up", "pause", "resume", "abort_requests", "collective_rpc", "update_weights", "reset"}
    assert not [path for path in ENDPOINTS if any(word in path for word in control)]
