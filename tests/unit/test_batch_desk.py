"""Files and batches by OpenAI's rules: what is refused at once, and to whom what belongs."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.batch.blobs import Blobs
from gateway.batch.desk import Desk, Terms
from gateway.batch.jobs import File, Problem, Status
from gateway.batch.sql import Database, SqlCatalogue, SqlLedger
from gateway.batch.store import Worker
from gateway.errors import InvalidRequest, NoSuchBatch, NoSuchFile

NOW = 1_800_000_000
CHAT = "/v1/chat/completions"
TERMS = Terms((CHAT,), {"24h": 86400}, ttl=30 * 86400)


class Office:
    """A desk on a real SQLite file, and how often it woke the runner."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.woken = 0
        self.folder = folder
        self.ledger = SqlLedger(database)
        self.desk = Desk(SqlCatalogue(database), Blobs(folder), TERMS, lambda: NOW, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    async def upload(self, data: bytes = b"{}", owner: str | None = None, fields: dict[str, str] | None = None) -> File:
        file_id, writer = await self.desk.begin_upload()
        with writer:
            writer.write(data)
            return await self.desk.keep(file_id, writer, {"purpose": "batch"} | (fields or {}), "a.jsonl", owner)

    async def wish(self, **changes: Any) -> dict[str, Any]:
        wish = {"input_file_id": (await self.upload()).id, "endpoint": CHAT, "completion_window": "24h"} | changes
        return {key: value for key, value in wish.items() if value is not ...}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    database = Database(f"sqlite:///{tmp_path}/batch.sqlite3")
    await database.migrate()
    yield Office(database, tmp_path / "files")
    await database.aclose()


async def test_a_file_is_kept_for_thirty_days_unless_it_says_otherwise(office: Office) -> None:
    file = await office.upload(b"hello")
    assert (file.size, file.created_at, file.expires_at) == (5, NOW, NOW + 30 * 86400)
    short = await office.upload(fields={"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"})
    assert short.expires_at == NOW + 3600
    found, path = await office.desk.content(file.id, None)
    assert (found, path.read_bytes()) == (file, b"hello")


@pytest.mark.parametrize(
    "fields",
    [
        {"purpose": "fine-tune"},
        {"purpose": ""},
        {"expires_after[anchor]": "now", "expires_after[seconds]": "3600"},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "x"},
        {"expires_after[anchor]": "created_at"},
        {"expires_after[seconds]": "3600"},
    ],
)
async def test_an_upload_that_is_refused_leaves_nothing(office: Office, fields: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        await office.upload(fields=fields)
    assert list(office.folder.iterdir()) == []


async def test_a_batch_that_is_made_wakes_the_runner(office: Office) -> None:
    wish = await office.wish(metadata={"a": "b"}, output_expires_after={"anchor": "created_at", "seconds": 7200})
    batch = await office.desk.create(wish, None)
    assert (batch.status, batch.expires_at, batch.output_ttl) == (Status.VALIDATING, NOW + 86400, 7200)
    assert batch.metadata == {"a": "b"}
    assert office.woken == 1
    assert await office.desk.batch(batch.id, None) == batch


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("endpoint", "/v1/images/generations"),
        ("endpoint", "/v1/completions"),
        ("endpoint", ...),
        ("endpoint", 5),
        ("completion_window", "7d"),
        ("completion_window", ...),
        ("input_file_id", "file-none"),
        ("input_file_id", ["x"]),
        ("input_file_id", ...),
        ("metadata", "x"),
        ("metadata", {"a": 1}),
        ("metadata", {str(n): "" for n in range(17)}),
        ("metadata", {"k" * 65: ""}),
        ("metadata", {"k": "v" * 513}),
        ("output_expires_after", 5),
        ("output_expires_after", {"anchor": "created_at"}),
        ("output_expires_after", {"anchor": "created_at", "seconds": 3599}),
        ("output_expires_after", {"anchor": "created_at", "seconds": True}),
        ("nonsense", 1),
    ],
)
async def test_a_wish_that_no_file_could_mend_is_refused_at_once(office: Office, param: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await office.desk.create(await office.wish(**{param: value}), None)
    assert refusal.value.param == param
    assert office.woken == 0


async def test_what_belongs_to_another_key_is_not_there(office: Office) -> None:
    file = await office.upload(owner="key-1")
    wish = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    batch = await office.desk.create(wish, "key-1")
    for stranger in ("key-2", None):
        with pytest.raises(NoSuchFile):
            await office.desk.file(file.id, stranger)
        with pytest.raises(NoSuchFile):
            await office.desk.content(file.id, stranger)
        with pytest.raises(NoSuchFile):
            await office.desk.delete(file.id, stranger)
        with pytest.raises(InvalidRequest):
            await office.desk.create(wish, stranger)
        with pytest.raises(NoSuchBatch):
            await office.desk.batch(batch.id, stranger)
        with pytest.raises(NoSuchBatch):
            await office.desk.cancel(batch.id, stranger)
        assert await office.desk.batches(stranger, after=None, limit=9) == ([], False)
    assert (await office.desk.batch(batch.id, "key-1")).status is Status.VALIDATING


async def test_a_file_that_a_batch_still_reads_is_not_deleted(office: Office) -> None:
    batch = await office.desk.create(await office.wish(), None)
    with pytest.raises(InvalidRequest, match=batch.id):
        await office.desk.delete(batch.input_file_id, None)
    worker = Worker("one")
    claimed = await office.ledger.claim_batch(worker, NOW)
    assert claimed is not None
    await office.ledger.fail(worker, claimed, [Problem("c", "m")], NOW)
    await office.desk.delete(batch.input_file_id, None)
    assert list(office.folder.iterdir()) == []
    with pytest.raises(NoSuchFile):
        await office.desk.delete(batch.input_file_id, None)


async def test_cancelling_twice_is_no_mistake_but_what_is_over_stays(office: Office) -> None:
    batch = await office.desk.create(await office.wish(), None)
    cancelled = await office.desk.cancel(batch.id, None)
    assert (cancelled.status, cancelled.cancelling_at) == (Status.CANCELLING, NOW)
    assert await office.desk.cancel(batch.id, None) == cancelled
    failed = await office.desk.create(await office.wish(), None)
    worker = Worker("one")
    claimed = await office.ledger.claim_batch(worker, NOW, [batch.seq])
    assert claimed == replace(failed)
    await office.ledger.fail(worker, claimed, [Problem("c", "m")], NOW)
    with pytest.raises(InvalidRequest, match="failed"):
        await office.desk.cancel(failed.id, None)


async def test_a_page_cannot_begin_at_what_is_not_there(office: Office) -> None:
    with pytest.raises(InvalidRequest):
        await office.desk.batches(None, after="batch_none", limit=1)
    with pytest.raises(InvalidRequest):
        await office.desk.files(None, purpose=None, after="file-none", limit=1, oldest_first=True)
