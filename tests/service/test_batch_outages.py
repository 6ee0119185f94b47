"""Files and batches while the database or the disk is away: what clients are told, and that nothing is left behind."""

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from app.sim import SimEngine, SimSettings
from tests.fakes.running_gateway import RunningGateway, running_gateway, settings_for

QUICK = SimSettings(ttft_ms=1, itl_ms=0.1, tokens=4)
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt-oss-20b"}}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KB of its own; only root can have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(path: Path) -> None:
    """Writes until there is no room."""
    with path.open("wb", buffering=0) as rest, suppress(OSError):
        while True:
            rest.write(b"x" * 4096)


async def upload_many(gateway: RunningGateway) -> None:
    """Uploads until the database needs more room than its log has already."""
    for _ in range(200):
        await gateway.openai.files.create(file=("n" * 250, b"{}"), purpose="batch")


async def requests(gateway: RunningGateway) -> list[tuple[str, int, dict[str, Any], str | None]]:
    """Asks for everything that there is of files and batches: what, status, error, Retry-After."""
    upload = {"data": {"purpose": "batch"}, "files": {"file": ("in.jsonl", json.dumps(LINE).encode())}}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v1/files", upload),
        ("GET", "/v1/files", {}),
        ("GET", "/v1/files/file-1", {}),
        ("GET", "/v1/files/file-1/content", {}),
        ("DELETE", "/v1/files/file-1", {}),
        ("POST", "/v1/batches", {"json": {"input_file_id": "file-1"}}),
        ("GET", "/v1/batches", {}),
        ("GET", "/v1/batches/batch_1", {}),
        ("POST", "/v1/batches/batch_1/cancel", {}),
    ]
    told = []
    for method, path, more in asked:
        answer = await gateway.http.request(method, path, **more)
        error = answer.json().get("error", {})
        told.append((f"{method} {path}", answer.status_code, error, answer.headers.get("retry-after")))
    return told


async def test_a_database_that_cannot_be_opened_is_a_503_with_a_time(tmp_path: Path) -> None:
    """Case H49."""
    batch = {"data_dir": tmp_path, "database_url": f"sqlite:///{tmp_path}/nowhere/batch.sqlite3"}
    async with SimEngine(QUICK) as engine, running_gateway(settings_for(engine, batch=batch)) as gateway:
        for what, status, error, retry_after in await requests(gateway):
            assert (status, error["type"], error["code"]) == (503, "server_error", "batches_unavailable"), what
            assert "sqlite" not in error["message"].lower(), what
            assert int(retry_after or 0) >= 1, what


async def test_a_database_that_goes_away_is_a_503_and_leaves_no_file(tmp_path: Path) -> None:
    """Case H49."""
    batch = {"data_dir": tmp_path, "database_url": f"sqlite:///{tmp_path}/batch.sqlite3", "poll_s": 0.05}
    async with SimEngine(QUICK) as engine, running_gateway(settings_for(engine, batch=batch)) as gateway:
        assert (await gateway.http.get("/v1/files")).status_code == 200
        with closing(sqlite3.connect(tmp_path / "batch.sqlite3")) as other:
            for table in ("files", "batches"):
                other.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
        for what, status, error, _ in await requests(gateway):
            if what != "POST /v1/batches":  # which is wrong in itself
                assert (status, error["code"]) == (503, "batches_unavailable"), what
        assert list((tmp_path / "files").iterdir()) == []


async def test_a_folder_that_cannot_be_made_is_a_503(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    batch = {"data_dir": tmp_path / "file" / "data", "database_url": f"sqlite:///{tmp_path}/batch.sqlite3"}
    async with SimEngine(QUICK) as engine, running_gateway(settings_for(engine, batch=batch)) as gateway:
        answer = await gateway.http.get("/v1/files")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "batches_unavailable")


async def test_an_upload_that_the_disk_has_no_room_for_is_a_507_and_leaves_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    """Case H69."""
    batch = {"data_dir": small_disk, "database_url": f"sqlite:///{tmp_path}/batch.sqlite3", "poll_s": 0.05}
    async with SimEngine(QUICK) as engine, running_gateway(settings_for(engine, batch=batch)) as gateway:
        with pytest.raises(openai.APIStatusError) as refusal:
            await gateway.openai.files.create(file=("in.jsonl", b"x" * 2**20), purpose="batch")
        assert (refusal.value.status_code, refusal.value.code) == (507, "disk_full")
        assert refusal.value.body["type"] == "server_error"  # type: ignore[index]  # an object, see the shape
        assert list((small_disk / "files").iterdir()) == []
        assert (await gateway.openai.files.create(file=("in.jsonl", b"x" * 1024), purpose="batch")).bytes == 1024


async def test_a_database_that_has_no_room_is_a_507_and_leaves_no_file(tmp_path: Path, small_disk: Path) -> None:
    """Case H69."""
    batch = {"data_dir": tmp_path, "database_url": f"sqlite:///{small_disk}/batch.sqlite3", "poll_s": 60}
    async with SimEngine(QUICK) as engine, running_gateway(settings_for(engine, batch=batch)) as gateway:
        assert (await gateway.http.get("/v1/files")).status_code == 200
        fill(small_disk / "rest")
        with pytest.raises(openai.APIStatusError) as refusal:
            await upload_many(gateway)
        assert (refusal.value.status_code, refusal.value.code) == (507, "disk_full")
        (small_disk / "rest").unlink()
        kept = [file.id async for file in gateway.openai.files.list()]
        assert sorted(path.name for path in (tmp_path / "files").iterdir()) == sorted(kept)


async def test_a_missing_file_or_batch_is_said_as_openai_says_it(tmp_path: Path) -> None:
    """Case H49."""
    async with (
        SimEngine(QUICK) as engine,
        running_gateway(settings_for(engine, batch={"data_dir": tmp_path})) as gateway,
    ):
        told = {what: (status, error) for what, status, error, _ in await requests(gateway)}
    no_file = {"message": "No such File object: file-1", "type": "invalid_request_error", "param": "id", "code": None}
    no_batch = {"message": "No batch found with id 'batch_1'.", "type": "invalid_request_error"}
    no_batch |= {"param": None, "code": None}  # type: ignore[dict-item]
    for what in ("GET /v1/files/file-1", "GET /v1/files/file-1/content", "DELETE /v1/files/file-1"):
        assert told[what] == (404, no_file), what
    for what in ("GET /v1/batches/batch_1", "POST /v1/batches/batch_1/cancel"):
        assert told[what] == (404, no_batch), what
