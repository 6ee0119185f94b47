"""No key is written anywhere: a real process at its most talkative level, and all that it says."""

import asyncio
import json
import re
import sys
from pathlib import Path

import httpx

from app.sim import SimEngine, SimSettings
from tests.fakes.keys import bearer, chat, new_key

SERVES = re.compile(rb"tokenlane serves on (\S+)")


async def test_no_key_is_in_a_log_a_metric_or_an_error(tmp_path: Path) -> None:
    """Case H13."""
    _, secret = await new_key(tmp_path, "team", parallel=4, tokens_per_minute=9)
    engine_key, wrong = "engine-key-4711", "tl-wrongkey0" + "w" * 35
    seen = b""
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=1, tokens=8)) as engine:
        lanes = {"lowlatency": {"engines": [{"url": engine.url, "kind": "sim", "api_key": engine_key}]}}
        lanes["batch"] = {"engines": [{"url": "http://127.0.0.1:9", "kind": "sim", "api_key": engine_key}]}
        settings = [f"lanes.{name}.engines={json.dumps(lane['engines'])}" for name, lane in lanes.items()]
        settings += ["server.port=0", "server.log_level=debug", f"batch.data_dir={tmp_path}"]
        words = [word for setting in settings for word in ("--set", setting)]
        process = await asyncio.create_subprocess_exec(
            *(Path(sys.executable).with_name("tokenlane"), "serve", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(30):
                while not (found := SERVES.search(seen)):
                    line = await process.stdout.readline()
                    assert line, seen
                    seen += line
                seen += await _asked(found[1].decode(), secret, wrong)
        finally:
            process.terminate()
            rest, _ = await process.communicate()
            seen += rest
        assert all(engine_key in request.headers.get("authorization", "") for request in engine.requests)
        assert not any(secret in str(request) or wrong in str(request) for request in engine.requests), "case H11"
    assert seen.count(b"key=") + seen.count(b'"key"') > 0, "the access line names the key by its id"
    for value in (secret, wrong, engine_key):
        assert value.encode() not in seen


async def _asked(url: str, secret: str, wrong: str) -> bytes:
    """Everything that a client gets to see, of good requests and of all kinds of bad ones."""
    seen = b""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as http:
        for key in (secret, wrong):
            for headers in (bearer(key), {"x-api-key": key}, {"authorization": key}, bearer(key) | {"cookie": key}):
                for body in (chat(), chat(stream=True), chat(model="unknown"), chat(service_tier="flex"), "{"):
                    for path in ("/v1/chat/completions", "/v1/messages"):
                        content = body if isinstance(body, str) else json.dumps(body)
                        kind = {"content-type": "application/json"}
                        answer = await http.post(path, content=content, headers=headers | kind)
                        seen += answer.content + str(answer.headers).encode()
        answer = await http.get("/metrics", headers=bearer(secret))
        assert b"tokenlane_key_refusals_total" in answer.content
        return seen + answer.content
