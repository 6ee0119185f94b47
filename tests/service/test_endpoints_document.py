"""The OpenAPI document against the gateway: what it says of requests and answers is what happens."""

import asyncio
import sys
from pathlib import Path

from app.sim import SimSettings
from gateway.endpoints import ENDPOINTS
from tests.fakes.running_gateway import gateway_on_sim

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
"""Not that what fits the document is taken, and what does not is refused: of bodies it says little, they are the engine's."""


async def test_the_document_names_every_endpoint_with_its_errors() -> None:
    async with gateway_on_sim() as (gateway, _engine):
        document = (await gateway.http.get("/openapi.json")).json()
        for path, endpoint in ENDPOINTS.items():
            operation = document["paths"][path]["post"]
            assert operation["summary"] == endpoint.summary
            (body,) = operation["requestBody"]["content"].values()
            assert body["schema"]["required"] == ["model", *endpoint.fields]
            assert {"400", "404", "413", "429", "500", "502", "503", "504"} <= set(operation["responses"])
            streams = "text/event-stream" in operation["responses"]["200"]["content"]
            assert streams == (endpoint.dialect is not None)


async def test_generated_requests_find_nothing_that_the_document_does_not_say(tmp_path: Path) -> None:
    """A fixed seed: the same requests each time."""
    command = ["run", "--checks", ",".join(CHECKS), "--phases", "fuzzing", "--max-examples", "8", "--seed", "1"]
    command += ["--generation-deterministic", "--suppress-health-check", "all"]
    command += ["--no-color", "--continue-on-failure", "--request-timeout", "20"]
    command += [part for tag in ("inference", "responses", "models") for part in ("--include-tag", tag)]
    async with gateway_on_sim(SimSettings(ttft_ms=0, itl_ms=0, tokens=3)) as (gateway, _engine):
        tool = Path(sys.executable).parent / "schemathesis"
        running = await asyncio.create_subprocess_exec(
            tool, *command, f"{gateway.url}/openapi.json", stdout=asyncio.subprocess.PIPE, cwd=tmp_path
        )
        told, _ = await running.communicate()
        assert running.returncode == 0, told.decode()
