"""Files and batches with the official client, on simulated engines."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch

from app.sim import SimEngine, SimSettings
from gateway.batch.sql import Database, SqlCatalogue
from gateway.keys.key import Rights, mint
from gateway.keys.sql import SqlKeys
from tests.fakes.keys import new_key
from tests.fakes.running_gateway import RunningGateway, running_gateway, settings_for

CHAT = "/v1/chat/completions"
MODEL = "gpt-oss-20b"
OVER = {"completed", "failed", "expired", "cancelled"}


@pytest.fixture
async def engine() -> AsyncIterator[SimEngine]:
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=0.1, tokens=4)) as engine:
        yield engine


@pytest.fixture
async def gateway(engine: SimEngine, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    batch = {
        "data_dir": tmp_path / "data",
        "poll_s": 0.05,
        "completion_windows": ["24h", "2s"],
        "file_bytes": 30 * 2**20,
    }
    async with running_gateway(settings_for(engine, batch=batch)) as gateway:
        yield gateway


def chats(count: int, **more: Any) -> bytes:
    rows = []
    for n in range(count):
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"question {n}"}], **more}
        rows.append({"custom_id": f"id-{n}", "method": "POST", "url": CHAT, "body": body})
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


async def create(gateway: RunningGateway, data: bytes, endpoint: Any = CHAT, window: Any = "24h") -> Batch:
    file = await gateway.openai.files.create(file=("in.jsonl", data), purpose="batch")
    return await gateway.openai.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window=window)


def _error_file_of(batch_id: str) -> str:
    """The id of a file that nobody can ask for any more."""
    return "file-" + hashlib.sha256(f"{batch_id} error".encode()).hexdigest()[:24]


async def ended(gateway: RunningGateway, batch: Batch) -> Batch:
    async with asyncio.timeout(60):
        while batch.status not in OVER:
            await asyncio.sleep(0.02)
            batch = await gateway.openai.batches.retrieve(batch.id)
    return batch


async def lines(gateway: RunningGateway, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    content = await gateway.openai.files.content(file_id)
    return [json.loads(line) for line in content.text.splitlines()]


async def test_a_batch_runs_from_upload_to_output_with_the_official_client(gateway: RunningGateway) -> None:
    data = chats(12, max_tokens=3)
    file = await gateway.openai.files.create(file=("in.jsonl", data), purpose="batch")
    assert (file.bytes, file.filename, file.purpose, file.status) == (len(data), "in.jsonl", "batch", "processed")
    assert file.expires_at == file.created_at + 30 * 86400
    assert (await gateway.openai.files.content(file.id)).content == data
    batch = await gateway.openai.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"night": "1"}
    )
    assert (batch.status, batch.metadata) == ("validating", {"night": "1"})
    batch = await ended(gateway, batch)
    assert (batch.status, batch.error_file_id, batch.errors, batch.model) == ("completed", None, None, MODEL)
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 12, "completed": 12, "failed": 0}
    assert batch.usage is not None
    assert batch.usage.output_tokens == 36
    output = await lines(gateway, batch.output_file_id)
    assert [line["custom_id"] for line in output] == [f"id-{n}" for n in range(12)]
    for line in output:
        assert line.keys() == {"id", "custom_id", "response", "error"}
        assert (line["response"]["status_code"], line["error"]) == (200, None)
        assert line["response"]["body"]["object"] == "chat.completion"


async def test_lines_that_the_engine_refuses_are_in_the_error_file(gateway: RunningGateway) -> None:
    data = chats(2) + chats(3, max_tokens=-1).split(b"\n")[2]
    batch = await ended(gateway, await create(gateway, data))
    assert (batch.status, batch.request_counts) == ("completed", batch.request_counts)
    assert [line["custom_id"] for line in await lines(gateway, batch.output_file_id)] == ["id-0", "id-1"]
    [line] = await lines(gateway, batch.error_file_id)
    assert (line["custom_id"], line["response"]["status_code"], line["error"]) == ("id-2", 400, None)
    assert line["response"]["body"]["error"]["message"]


async def test_a_bad_file_fails_with_the_lines_that_are_wrong(gateway: RunningGateway, engine: SimEngine) -> None:
    """Case H68."""
    data = chats(2) + chats(1) + b'{"custom_id":\n' + chats(3, stream=True).split(b"\n")[2]
    batch = await ended(gateway, await create(gateway, data))
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("failed", None, None)
    assert batch.errors is not None
    assert batch.errors.object == "list"
    told = [(error.code, error.line, error.param) for error in batch.errors.data or []]
    assert told == [
        ("duplicate_custom_id", 3, "custom_id"),
        ("invalid_json_line", 4, None),
        ("invalid_request", 5, "body.stream"),
    ]


async def test_a_model_that_nobody_serves_fails_the_batch(gateway: RunningGateway) -> None:
    """Case H68."""
    batch = await ended(gateway, await create(gateway, chats(1).replace(MODEL.encode(), b"other")))
    assert batch.errors is not None
    assert [(error.code, error.line) for error in batch.errors.data or []] == [("model_not_found", 1)]


async def test_completions_are_served_too_but_not_every_endpoint(gateway: RunningGateway) -> None:
    row = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"model": MODEL, "prompt": "once"}}
    batch = await ended(gateway, await create(gateway, json.dumps(row).encode(), "/v1/completions"))
    assert (await lines(gateway, batch.output_file_id))[0]["response"]["body"]["object"] == "text_completion"
    with pytest.raises(openai.BadRequestError) as refusal:
        await create(gateway, chats(1), "/v1/images/generations")
    assert refusal.value.param == "endpoint"


async def test_a_cancelled_batch_keeps_what_is_done(gateway: RunningGateway, engine: SimEngine) -> None:
    engine.set(ttft_ms=300.0)
    batch = await create(gateway, chats(60))
    async with asyncio.timeout(10):
        while not batch.request_counts or not batch.request_counts.completed:
            await asyncio.sleep(0.02)
            batch = await gateway.openai.batches.retrieve(batch.id)
    cancelling = await gateway.openai.batches.cancel(batch.id)
    assert (cancelling.status, cancelling.cancelling_at is None) == ("cancelling", False)
    batch = await ended(gateway, batch)
    assert (batch.status, batch.cancelled_at is None) == ("cancelled", False)
    done, errors = await lines(gateway, batch.output_file_id), await lines(gateway, batch.error_file_id)
    assert {line["error"]["code"] for line in errors} == {"batch_cancelled"}
    assert sorted(line["custom_id"] for line in done + errors) == sorted(f"id-{n}" for n in range(60))
    with pytest.raises(openai.BadRequestError):
        await gateway.openai.batches.cancel((await ended(gateway, await create(gateway, chats(1)))).id)


async def test_an_expired_batch_keeps_what_is_done(gateway: RunningGateway, engine: SimEngine) -> None:
    """Case H69: the window is over in the middle."""
    engine.set(ttft_ms=300.0)
    batch = await ended(gateway, await create(gateway, chats(60), window="2s"))
    assert (batch.status, batch.expired_at is None) == ("expired", False)
    done, errors = await lines(gateway, batch.output_file_id), await lines(gateway, batch.error_file_id)
    assert done
    assert {line["error"]["code"] for line in errors} == {"batch_expired"}
    assert sorted(line["custom_id"] for line in done + errors) == sorted(f"id-{n}" for n in range(60))
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 60, "completed": len(done), "failed": len(errors)}


async def test_lists_are_paged_by_the_client(gateway: RunningGateway) -> None:
    made = [(await create(gateway, chats(1))).id for _ in range(5)]
    listed = [batch.id async for batch in gateway.openai.batches.list(limit=2)]
    assert listed == made[::-1]
    for batch_id in made:
        await ended(gateway, await gateway.openai.batches.retrieve(batch_id))
    inputs = [file.id async for file in gateway.openai.files.list(limit=2, purpose="batch", order="asc")]
    outputs = [file.id async for file in gateway.openai.files.list(limit=2, purpose="batch_output")]
    assert (len(inputs), len(outputs)) == (5, 5)
    await gateway.openai.files.delete(outputs[0])
    with pytest.raises(openai.NotFoundError):
        await gateway.openai.files.retrieve(outputs[0])
    with pytest.raises(openai.NotFoundError):
        await gateway.openai.batches.retrieve("batch_none")
    for query in ("limit=0", "limit=101", "after=batch_none", "limit=x"):
        assert (await gateway.http.get(f"/v1/batches?{query}")).status_code == 400


async def test_a_file_may_be_larger_than_any_other_body_but_not_without_bound(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    file = await gateway.openai.files.create(file=("in.jsonl", b"x" * 25 * 2**20), purpose="batch")
    assert file.bytes == 25 * 2**20
    head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (31 * 2**20)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(head)
    assert (await reader.readline()).split()[1] == b"413"
    writer.close()

    async def endless() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(31):
            yield b"x" * 2**20

    answer = await gateway.http.post(
        "/v1/files", content=endless(), headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert answer.status_code == 413
    assert [path.name for path in (tmp_path / "data" / "files").iterdir()] == [file.id]


async def test_an_upload_that_is_refused_leaves_nothing(gateway: RunningGateway, tmp_path: Path) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        await gateway.openai.files.create(file=("in.jsonl", b"{}"), purpose="fine-tune")
    assert refusal.value.param == "purpose"
    for answer in (
        await gateway.http.post("/v1/files", json={}),
        await gateway.http.post("/v1/files", data={"purpose": "batch"}, files={"other": b"x"}),
    ):
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert list((tmp_path / "data" / "files").iterdir()) == []


@pytest.mark.parametrize("path", ["/v1/files/..%2f..%2fetc%2fpasswd/content", "/v1/files/file-none/content"])
async def test_no_path_leads_out_of_the_folder(gateway: RunningGateway, path: str) -> None:
    assert (await gateway.http.get(path)).status_code == 404


@pytest.mark.parametrize("fault", ["status:503", "status:429", "reset@0", "status:500"])
async def test_a_lane_that_is_busy_or_broken_is_waited_for(
    gateway: RunningGateway, engine: SimEngine, fault: str
) -> None:
    """Case H69."""
    engine.set(fault=fault)
    batch = await create(gateway, chats(6))
    await asyncio.sleep(0.4)
    engine.set(fault=None)
    batch = await ended(gateway, batch)
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 6, "completed": 6, "failed": 0}


async def test_an_engine_that_fails_with_one_line_again_and_again_does_not_hold_up_the_batch(
    engine: SimEngine, tmp_path: Path
) -> None:
    engine.set(fault="status:500")
    batch = {"data_dir": tmp_path / "data", "poll_s": 0.05, "attempts": 1}
    async with running_gateway(settings_for(engine, batch=batch, health={"failures": 100})) as gateway:
        made = await ended(gateway, await create(gateway, chats(3)))
        assert (made.status, made.output_file_id) == ("completed", None)
        assert [line["response"]["status_code"] for line in await lines(gateway, made.error_file_id)] == [500] * 3


async def test_a_batch_belongs_to_its_key_and_ends_with_it(engine: SimEngine, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'batch.sqlite3'}")
    await database.migrate()
    store = SqlKeys(database)
    secrets = {}
    for name, rights in {"one": Rights(), "two": Rights(), "chat": Rights(lanes=("lowlatency",))}.items():
        key, secrets[name] = mint(name, rights, 1.0)
        await store.add(key)
    settings = settings_for(engine, batch={"data_dir": tmp_path, "poll_s": 0.05}, keys={"refresh_s": 0.1})
    async with running_gateway(settings) as gateway:
        one, two, chat = (gateway.openai.with_options(api_key=secrets[name]) for name in ("one", "two", "chat"))
        gateway.openai = one
        batch = await ended(gateway, await create(gateway, chats(2)))
        assert (await one.batches.retrieve(batch.id)).status == "completed"
        for stranger in (two, chat):
            with pytest.raises(openai.NotFoundError):
                await stranger.batches.retrieve(batch.id)
            with pytest.raises(openai.NotFoundError):
                await stranger.files.content(str(batch.output_file_id))
            assert [file async for file in stranger.files.list()] == []
        gateway.openai = chat
        with pytest.raises(openai.PermissionDeniedError):
            await create(gateway, chats(1))
        engine.set(ttft_ms=300.0)
        gateway.openai = one
        left = await create(gateway, chats(60))
        async with asyncio.timeout(60):
            while left.status != "in_progress":
                await asyncio.sleep(0.02)
                left = await one.batches.retrieve(left.id)
        await store.revoke("one", 2.0)
        files = tmp_path / "files"
        async with asyncio.timeout(60):
            while not (errors := files / _error_file_of(left.id)).exists():  # noqa: ASYNC110 - its key can ask nothing
                await asyncio.sleep(0.05)
        rows = [json.loads(line) for line in errors.read_text().splitlines()]
        assert {line["error"]["code"] for line in rows} == {"batch_cancelled"}
        [key_id] = [key.id for key in await store.all() if key.name == "one"]
        stopped = await SqlCatalogue(database).batch(left.id, key_id)
        assert stopped is not None
        assert [problem.code for problem in stopped.problems] == ["invalid_api_key"]
        assert stopped.failed == len(rows)
    await database.aclose()


async def test_a_key_has_a_bound_of_lines_that_wait_and_lines_do_not_count_as_its_requests(
    engine: SimEngine, tmp_path: Path
) -> None:
    _, secret = await new_key(tmp_path, batch_lines=8, requests_per_minute=2, tokens_per_minute=10, parallel=1)
    settings = settings_for(engine, batch={"data_dir": tmp_path, "poll_s": 0.05}, keys={"refresh_s": 0.1})
    async with running_gateway(settings) as gateway:
        gateway.openai = gateway.openai.with_options(api_key=secret)
        refused = await ended(gateway, await create(gateway, chats(9)))
        assert refused.errors is not None
        assert [error.code for error in refused.errors.data or []] == ["line_limit_exceeded"]
        batch = await ended(gateway, await create(gateway, chats(8)))
        assert batch.request_counts is not None
        assert batch.request_counts.model_dump() == {"total": 8, "completed": 8, "failed": 0}
        messages: Any = [{"role": "user", "content": "hi"}]
        raw = await gateway.openai.chat.completions.with_raw_response.create(model=MODEL, messages=messages)
        assert raw.headers["x-ratelimit-remaining-requests"] == "1"


async def test_who_makes_no_batch_has_no_file_and_loads_no_database(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from tests.fakes.running_gateway import running_gateway
from config.settings import Settings

async def main():
    async with running_gateway(Settings(server={"port": 0, "access_log": False, "log_level": "error"})) as gateway:
        assert (await gateway.http.get("/health")).status_code == 200
        assert await gateway.http.get("/v1/models")

asyncio.run(main())
print([name for name in ("sqlalchemy", "alembic", "aiosqlite", "asyncpg") if name in sys.modules])
"""
    root = Path(__file__).parents[2]
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names are enough
