"""The short way to inference and FastAPI's own: the same answers, byte for byte."""

import json
import re

import pytest

from app.sim import SimEngine, SimSettings
from gateway.endpoints import ENDPOINTS
from tests.fakes.running_gateway import running_gateway, settings_for

CHAT = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 6}
BODIES = {
    "whole": json.dumps(CHAT),
    "stream": json.dumps({**CHAT, "stream": True}),
    "not JSON": "{",
    "unknown model": json.dumps({**CHAT, "model": "nope"}),
    "unknown tier": json.dumps({**CHAT, "service_tier": "gold"}),
}
VARYING = ("date", "openai-processing-ms", "x-tokenlane-overhead-ms", "x-tokenlane-queue-ms")


async def answers(path: str, *, straight: bool) -> list[tuple[int, dict[str, str], str]]:
    """What each body gets: status, headers, and the answer without ids and times."""
    heard = []
    engine = SimEngine(SimSettings(ttft_ms=0, itl_ms=0))
    async with engine, running_gateway(settings_for(engine), straight=straight) as gateway:
        for kind, body in [("application/json", body) for body in BODIES.values()] + [("text/plain", "{}")]:
            headers = {"content-type": kind, "x-request-id": "same", "x-tokenlane-buffer": "tokens=1,delay_ms=0"}
            answer = await gateway.http.post(path, content=body, headers=headers)
            sent = {name: value for name, value in answer.headers.items() if name not in VARYING}
            heard.append((answer.status_code, sent, re.sub(r'"(id|created)": ?("[^"]*"|\d+)', "", answer.text)))
    return heard


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages"])
async def test_both_ways_give_the_same_answers(path: str) -> None:
    assert path in ENDPOINTS
    assert await answers(path, straight=True) == await answers(path, straight=False)
