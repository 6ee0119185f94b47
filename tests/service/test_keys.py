"""Who may ask what: real uvicorn, real sockets, keys in a real database."""

import asyncio
import time
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from app.sim import SimSettings
from tests.fakes.keys import asks, bearer, chat, kept_in, new_key, revoke
from tests.fakes.running_gateway import asked, gateway_on_sim

EVERYWHERE = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/tokenize"),
    ("GET", "/v1/models"),
    ("GET", "/v1/files"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/responses/resp_1"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/ui/status"),
    ("GET", "/ui/config"),
    ("GET", "/nothing/here"),
    ("POST", "/sleep"),
]


async def test_while_there_is_no_key_nobody_needs_one(tmp_path: Path) -> None:
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, _):
        assert (await gateway.http.post("/v1/chat/completions", json=chat())).status_code == 200
        assert (await asks(gateway.http, "whatever a client sends")).status_code == 200
    assert not any(tmp_path.glob("*")), "no key is no reason to make a database"  # noqa: ASYNC240 - an empty folder


async def test_where_a_key_is_required_nobody_comes_in_without_one(tmp_path: Path) -> None:
    changes: dict[str, Any] = {**kept_in(tmp_path), "keys": {"required": True}}
    async with gateway_on_sim(**changes) as (gateway, engine):
        answer = await gateway.http.post("/v1/chat/completions", json=chat())
        assert answer.status_code == 401
        assert asked(engine) == []


async def test_without_a_good_key_everything_is_refused_but_health_and_the_page(tmp_path: Path) -> None:
    """Case H12."""
    key, _ = await new_key(tmp_path)
    wrong: list[dict[str, str]] = [
        {},
        bearer(key.prefix + "x" * 35),
        bearer("nonsense"),
        {"authorization": "Basic YTpi"},
    ]
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, engine):
        for method, path in EVERYWHERE:
            for headers in wrong:
                answer = await gateway.http.request(method, path, headers=headers)
                assert answer.status_code == 401, path
                assert answer.headers["www-authenticate"].startswith("Bearer"), path
                assert answer.headers["x-request-id"]
        for path in ("/health", "/ready", "/"):
            assert (await gateway.http.get(path)).status_code == 200
        assert asked(engine) == []


async def test_a_refusal_has_the_shape_of_the_api_that_is_asked(tmp_path: Path) -> None:
    """Case H49."""
    await new_key(tmp_path)
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, _):
        error = (await gateway.http.post("/v1/chat/completions", json=chat())).json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["code"] == "missing_api_key"
        error = (await gateway.http.post("/v1/messages", json=chat())).json()
        assert (error["type"], error["error"]["type"]) == ("error", "authentication_error")
        with pytest.raises(openai.AuthenticationError) as caught:
            await gateway.openai.models.list()
        assert caught.value.code == "invalid_api_key"


async def test_the_official_clients_come_in_with_their_key(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path)
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, engine):
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=secret, max_retries=0) as client:
            assert (await client.models.list()).data
        async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key=secret, max_retries=0) as other:
            message = await other.messages.create(
                model="gpt-oss-20b", max_tokens=8, messages=[{"role": "user", "content": "hi"}]
            )
            assert message.content
        assert (await gateway.http.get("/v1/models", headers={"x-api-key": secret})).status_code == 401
        assert all(secret not in str(request) for request in engine.requests), "case H11"


async def test_a_new_key_works_at_once_and_a_revoked_one_stops_within_seconds(tmp_path: Path) -> None:
    await new_key(tmp_path, "first")
    changes: dict[str, Any] = {**kept_in(tmp_path), "keys": {"refresh_s": 60}}
    async with gateway_on_sim(**changes) as (gateway, _):  # which has just looked
        _, secret = await new_key(tmp_path, "second")
        assert (await asks(gateway.http, secret)).status_code == 200
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, _):
        assert (await asks(gateway.http, secret)).status_code == 200
        await revoke(tmp_path, "second")
        async with asyncio.timeout(5):
            while (answer := await asks(gateway.http, secret)).status_code == 200:  # noqa: ASYNC110 - who should tell?
                await asyncio.sleep(0.02)
        assert answer.json()["error"]["code"] == "invalid_api_key"


async def test_the_first_key_shuts_a_running_gateway_and_revoking_the_last_does_not_open_it(tmp_path: Path) -> None:
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, _):
        assert (await gateway.http.get("/v1/models")).status_code == 200
        await new_key(tmp_path)
        async with asyncio.timeout(5):
            while (await gateway.http.get("/v1/models")).status_code == 200:  # noqa: ASYNC110 - who should tell?
                await asyncio.sleep(0.02)
        await revoke(tmp_path, "team")
        await asyncio.sleep(0.2)
        assert (await gateway.http.get("/v1/models")).status_code == 401


async def test_an_expired_key_is_told_so(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, expires_at=time.time() - 1)
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, _):
        answer = await asks(gateway.http, secret)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert "expired" in answer.json()["error"]["message"]


async def test_a_key_reaches_its_lanes_and_no_other(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, lanes=("batch",))
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, engine):
        assert (await asks(gateway.http, secret)).headers["x-tokenlane-lane"] == "batch"
        refused = await gateway.http.post(
            "/v1/chat/completions", json=chat(), headers={**bearer(secret), "x-tokenlane-lane": "lowlatency"}
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "lane_forbidden")
        assert (await asks(gateway.http, secret, model="gpt-oss-20b:lowlatency")).status_code == 403
        assert len(asked(engine)) == 1


async def test_a_model_that_a_key_may_not_ask_for_is_not_there_for_it(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, models=("another",))
    _, able = await new_key(tmp_path, "able", models=("gpt-oss-20b",))
    async with gateway_on_sim(**kept_in(tmp_path)) as (gateway, engine):
        listed = (await gateway.http.get("/v1/models", headers=bearer(secret))).json()["data"]
        assert listed == []
        assert (await gateway.http.get("/v1/models/gpt-oss-20b", headers=bearer(secret))).status_code == 404
        for model in ("gpt-oss-20b", "gpt-oss-20b:batch", None):
            answer = await asks(gateway.http, secret, model=model)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert [request.path for request in asked(engine) if request.method == "POST"] == []
        assert (await asks(gateway.http, able)).status_code == 200
        assert (await asks(gateway.http, able, model="gpt-oss-20b:batch")).status_code == 200


async def test_files_and_batches_belong_to_the_key_that_made_them(tmp_path: Path) -> None:
    _, one = await new_key(tmp_path, "one")
    _, two = await new_key(tmp_path, "two")
    line = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-oss-20b","messages":[{"role":"user","content":"hi"}]}}\n'
    async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=0.1, tokens=4), **kept_in(tmp_path)) as (gateway, _):
        form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("a.jsonl", line)}}
        file = (await gateway.http.post("/v1/files", **form, headers=bearer(one))).json()["id"]
        wish = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        assert (await gateway.http.post("/v1/batches", json=wish, headers=bearer(two))).status_code == 400
        batch = (await gateway.http.post("/v1/batches", json=wish, headers=bearer(one))).json()["id"]
        for path in (f"/v1/files/{file}", f"/v1/files/{file}/content", f"/v1/batches/{batch}"):
            assert (await gateway.http.get(path, headers=bearer(two))).status_code == 404
            assert (await gateway.http.get(path, headers=bearer(one))).status_code == 200
        assert (await gateway.http.get("/v1/files", headers=bearer(two))).json()["data"] == []


async def test_metrics_can_be_left_open(tmp_path: Path) -> None:
    await new_key(tmp_path)
    async with gateway_on_sim(**kept_in(tmp_path), server={"metrics_open": True}) as (gateway, _):
        await gateway.http.get("/v1/models")
        text = (await gateway.http.get("/metrics")).text
        assert 'tokenlane_key_refusals_total{reason="KeyMissing"} 1.0' in text
