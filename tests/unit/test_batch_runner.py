"""The runner on a real SQLite file, with lines that follow a script instead of an engine."""

import asyncio
import errno
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.batch.assembly import Assembler
from gateway.batch.blobs import Blobs, BlobWriter
from gateway.batch.desk import Desk, Terms
from gateway.batch.execution import Cut, KeyGone, LaneDown, TryAgain
from gateway.batch.jobs import Batch, Line, LineState, Result, Status, Usage
from gateway.batch.moves import Mover
from gateway.batch.objects import answered
from gateway.batch.outage import Outage
from gateway.batch.pace import Own
from gateway.batch.runner import Runner
from gateway.batch.sql import Database, SqlCatalogue, SqlLedger
from gateway.batch.store import Worker
from gateway.batch.validation import Validator
from gateway.errors import GatewayError, KeyRejected
from gateway.pacing.pace import Pacing, Signs
from gateway.pacing.pacer import Pacer
from gateway.telemetry import BatchEnded, BatchLines, TelemetryEvent

CHAT = "/v1/chat/completions"
Ending = Result | LaneDown | TryAgain | KeyGone | Exception | None


class ScriptedExecutor:
    """Ends the tries of each line as its script says, then well; None never ends until it is cut."""

    def __init__(self, script: dict[str, Sequence[Ending]] | None = None) -> None:
        self.script = {custom_id: list(endings) for custom_id, endings in (script or {}).items()}
        self.runs: list[str] = []
        self.most = 0
        self.downs = 0
        self.tried_while_down: list[int] = []  # how many ran at once, for each line that began after a failure
        self._now = 0

    async def run(self, line: Line, raw: bytes, cut: Cut) -> Result | LaneDown | TryAgain | KeyGone:
        assert json.loads(raw)["custom_id"] == line.custom_id
        self.runs.append(line.custom_id)
        self._now += 1
        self.most = max(self.most, self._now)
        if self.downs:
            self.tried_while_down.append(self._now)
        try:
            await asyncio.sleep(0)
            ending = await self._end(line, cut)
            self.downs += isinstance(ending, LaneDown)
            return ending
        finally:
            self._now -= 1

    async def _end(self, line: Line, cut: Cut) -> Result | LaneDown | TryAgain | KeyGone:
        endings = self.script.get(line.custom_id)
        ending = endings.pop(0) if endings else good(line.custom_id)
        if isinstance(ending, Exception):
            raise ending
        if ending is None:
            try:
                async with cut:
                    await asyncio.Event().wait()
            except GatewayError:
                return LaneDown(None)
        assert ending is not None
        return ending


def good(custom_id: str) -> Result:
    return Result(LineState.DONE, answered("batch_req_1", custom_id, 200, "req_1", b'{"ok":true}'), Usage(1, 0, 2, 0))


def bad(custom_id: str) -> Result:
    return Result(LineState.FAILED, answered("batch_req_1", custom_id, 400, "req_1", b'{"error":{}}'))


class FullDisk(Blobs):
    """A folder on a disk that is full for as long as `full` says."""

    full = True

    def write(self, file_id: str) -> BlobWriter:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(file_id)


class Works:
    """A runner with everything around it."""

    def __init__(self, database: Database, folder: Path, executor: ScriptedExecutor, **more: Any) -> None:
        self.now = 1_800_000_000.0
        self.reports: list[str] = []
        self.events: list[TelemetryEvent] = []
        self.executor = executor
        self.blobs: Blobs = Blobs(folder)
        self.output: Blobs = more.pop("output", None) or self.blobs
        self.catalogue, self.ledger = SqlCatalogue(database), SqlLedger(database)
        self.bound: int | None = None
        validator = Validator(self.ledger, self.blobs, self._models, 1000, 2**20, self._bound_of)
        assembler = Assembler(self.ledger, self.output, 3600)
        self.runner = Runner(
            ledger=self.ledger,
            blobs=self.blobs,
            executor=executor,  # type: ignore[arg-type]  # plays a script
            mover=Mover(
                *(self.ledger, self.catalogue, self.blobs, validator, assembler, self.clock, self.report),
                observer=self.observe,
            ),
            pace=Own(Pacer(Pacing(more.pop("concurrency", 4), quiet_step=0.0), Signs, asyncio.get_running_loop().time)),
            worker=Worker(more.pop("worker", "one"), 60),
            clock=self.clock,
            report=self.report,
            poll_s=0.02,
            outage=Outage(first=0.01, most=0.02),
            observer=self.observe,
            census_s=0.0,
        )
        self.desk = Desk(self.catalogue, self.blobs, Terms((CHAT,), {"24h": 86400}), self.clock, self.runner.wake)

    def clock(self) -> float:
        return self.now

    def report(self, happening: str, **details: object) -> None:
        self.reports.append(f"{happening} {details}")

    async def _models(self) -> Callable[[str], bool]:
        return lambda model: model == "m"

    def _bound_of(self, owner: str | None) -> int | None:
        if self.bound == 0:
            raise KeyRejected("The key is gone.")
        return self.bound

    async def batch(self, lines: int) -> Batch:
        rows = [
            {"custom_id": f"id-{n}", "method": "POST", "url": CHAT, "body": {"model": "m", "messages": [n]}}
            for n in range(lines)
        ]
        return await self.batch_of(b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    async def batch_of(self, data: bytes) -> Batch:
        file_id, writer = await self.desk.begin_upload()
        with writer:
            writer.write(data)
            await self.desk.keep(file_id, writer, {"purpose": "batch"}, "a.jsonl", None)
        wish = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
        return await self.desk.create(wish, None)

    async def until(self, batch: Batch, is_so: Callable[[Batch], bool]) -> Batch:
        async with asyncio.timeout(60):
            while not is_so(found := await self.desk.batch(batch.id, None)):  # noqa: ASYNC110 - as clients do
                await asyncio.sleep(0.01)
        return found

    async def ended(self, batch: Batch) -> Batch:
        return await self.until(batch, lambda found: found.over)

    def observe(self, event: TelemetryEvent) -> None:
        self.events.append(event)

    def counted(self) -> dict[str, int]:
        """Lines by what became of them."""
        counts: Counter[str] = Counter()
        for event in self.events:
            if isinstance(event, BatchLines):
                counts[event.outcome] += event.count
        return dict(counts)

    async def lines(self, file_id: str | None) -> list[dict[str, Any]]:
        if file_id is None:
            return []
        file = await self.desk.file(file_id, None)
        data = self.output.path(file_id).read_bytes()
        assert len(data) == file.size
        return [json.loads(line) for line in data.splitlines()]


@asynccontextmanager
async def works(folder: Path, script: dict[str, Sequence[Ending]] | None = None, **more: Any) -> AsyncIterator[Works]:
    database = Database(f"sqlite:///{folder}/batch.sqlite3")
    await database.migrate()
    running_works = Works(database, folder / "files", ScriptedExecutor(script), **more)
    running = asyncio.create_task(running_works.runner.run())
    try:
        yield running_works
    finally:
        running_works.runner.stop()
        await running
        await database.aclose()


async def test_each_line_is_in_exactly_one_file_and_the_counts_add_up(tmp_path: Path) -> None:
    """Case H68."""
    async with works(tmp_path, {"id-3": [bad("id-3")], "id-7": [bad("id-7")]}) as there:
        batch = await there.ended(await there.batch(20))
        assert (batch.status, batch.total, batch.completed, batch.failed) == (Status.COMPLETED, 20, 18, 2)
        assert batch.usage == Usage(18, 0, 36, 0)
        done, failed = await there.lines(batch.output_file_id), await there.lines(batch.error_file_id)
        assert [line["custom_id"] for line in done] == [f"id-{n}" for n in range(20) if n not in {3, 7}]
        assert [line["custom_id"] for line in failed] == ["id-3", "id-7"]
        assert sorted(there.executor.runs) == sorted(f"id-{n}" for n in range(20))
        assert there.executor.most <= 4
        times = (batch.in_progress_at, batch.finalizing_at, batch.completed_at, batch.failed_at, batch.expired_at)
        assert [time is None for time in times] == [False, False, False, True, True]


async def test_what_becomes_of_lines_and_batches_is_reported(tmp_path: Path) -> None:
    script: dict[str, Sequence[Ending]] = {"id-1": [bad("id-1")], "id-2": [LaneDown(None)], "id-3": [TryAgain()] * 99}
    async with works(tmp_path, script) as there:
        batch = await there.batch(8)
        await there.until(batch, lambda found: found.completed == 6 and found.failed == 1)
        there.now += 86400
        await there.ended(batch)
        await there.until(batch, lambda _: any(isinstance(event, BatchEnded) for event in there.events))  # told after
        counted = there.counted()
        assert counted.pop("again") >= 1
        assert counted == {"done": 6, "failed": 1, "lane_down": 1, "expired": 1}
        assert [event for event in there.events if isinstance(event, BatchEnded)] == [BatchEnded("expired")]


async def test_the_figures_follow_what_there_is(tmp_path: Path) -> None:
    async with works(tmp_path, {"id-1": [None]}) as there:
        batch = await there.batch(3)
        await there.until(batch, lambda found: found.completed == 2)
        await there.until(batch, lambda _: there.runner.figures.open.get("in_progress") == 1)
        await there.until(batch, lambda _: there.runner.figures.waiting == 0)
        figures = there.runner.figures
        assert (figures.running, figures.ceiling) == (1, 4)
        assert 1 <= figures.pace <= 4


async def test_a_file_without_a_line_is_not_made(tmp_path: Path) -> None:
    async with works(tmp_path, {"id-0": [bad("id-0")]}) as there:
        batch = await there.ended(await there.batch(1))
        assert (batch.output_file_id, batch.error_file_id is None) == (None, False)
        other = await there.ended(await there.batch_of(b'{"custom_id":"x","method":"POST"'))
        assert (other.output_file_id, other.error_file_id) == (None, None)


async def test_a_bad_file_fails_before_anything_runs(tmp_path: Path) -> None:
    """Case H68."""
    line = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"model": "m"}}
    async with works(tmp_path) as there:
        batch = await there.ended(await there.batch_of(json.dumps(line).encode() + b"\n{nonsense\n"))
        assert (batch.status, batch.failed_at, batch.total) == (Status.FAILED, 1_800_000_000, 0)
        assert [(p.code, p.line) for p in batch.problems] == [("invalid_json_line", 2)]
        assert there.executor.runs == []


async def test_a_lane_that_is_down_costs_a_line_nothing(tmp_path: Path) -> None:
    """Case H69: an outage is waited for; lines are not failed by the thousand."""
    async with works(tmp_path, {"id-3": [LaneDown(None)] * 5}) as there:
        batch = await there.ended(await there.batch(12))
        assert (batch.completed, batch.failed) == (12, 0)
        assert there.executor.runs.count("id-3") == 6


async def test_while_a_lane_is_down_one_line_at_a_time_tries_it(tmp_path: Path) -> None:
    script: dict[str, Sequence[Ending]] = {f"id-{n}": [LaneDown(None)] * 99 for n in range(20)}
    async with works(tmp_path, script) as there:
        await there.until(await there.batch(20), lambda _: there.executor.downs > 9)
        assert set(there.executor.tried_while_down[4:]) == {
            1
        }  # the first ones began before the lane was known to be down


async def test_a_line_whose_engine_fails_is_tried_again_later(tmp_path: Path) -> None:
    async with works(tmp_path, {"id-1": [TryAgain(), TryAgain()]}) as there:
        batch = await there.batch(3)
        await there.until(batch, lambda found: found.completed == 2)
        await asyncio.sleep(0.05)
        assert there.executor.runs.count("id-1") == 1
        there.now += 1
        await there.until(batch, lambda _: there.executor.runs.count("id-1") == 2)

        def later(found: Batch) -> bool:
            there.now += 1  # the back-off is counted from when the second failure was written down
            return found.over

        assert (await there.until(batch, later)).completed == 3


async def test_a_disk_that_cannot_be_read_for_a_while_costs_no_line(tmp_path: Path) -> None:
    """Case H69: no thousand instant failures."""
    broken = [OSError(errno.EIO, "Input/output error")] * 2
    async with works(tmp_path, {f"id-{n}": list(broken) for n in range(4)}) as there:
        batch = await there.ended(await there.batch(6))
        assert (batch.completed, batch.failed) == (6, 0)
        assert any("Input/output error" in report for report in there.reports)


async def test_a_line_whose_file_is_gone_fails(tmp_path: Path) -> None:
    async with works(tmp_path, {"id-1": [FileNotFoundError(errno.ENOENT, "gone")]}) as there:
        batch = await there.ended(await there.batch(3))
        assert (batch.completed, batch.failed) == (2, 1)


async def test_a_fault_with_one_line_stops_no_other(tmp_path: Path) -> None:
    async with works(tmp_path, {"id-1": [RuntimeError("a bug")]}) as there:
        batch = await there.ended(await there.batch(4))
        assert (batch.completed, batch.failed) == (3, 1)
        [line] = await there.lines(batch.error_file_id)
        assert line["error"]["code"] == "internal_error"
        assert "bug" not in json.dumps(line)


async def test_an_expired_batch_keeps_what_is_done_and_says_what_is_not(tmp_path: Path) -> None:
    """Case H69."""
    async with works(tmp_path, {f"id-{n}": [TryAgain()] * 99 for n in (1, 2)}) as there:
        batch = await there.batch(5)
        await there.until(batch, lambda found: found.completed == 3)
        there.now += 86400
        batch = await there.ended(batch)
        assert (batch.status, batch.completed, batch.failed) == (Status.EXPIRED, 3, 2)
        assert batch.expired_at == 1_800_086_400
        assert [line["custom_id"] for line in await there.lines(batch.output_file_id)] == ["id-0", "id-3", "id-4"]
        errors = await there.lines(batch.error_file_id)
        assert [line["custom_id"] for line in errors] == ["id-1", "id-2"]
        assert {line["error"]["code"] for line in errors} == {"batch_expired"}
        assert {line["response"] for line in errors} == {None}


async def test_a_cancelled_batch_keeps_what_is_done(tmp_path: Path) -> None:
    async with works(tmp_path, {f"id-{n}": [TryAgain()] * 99 for n in (1, 2)}) as there:
        batch = await there.batch(5)
        await there.until(batch, lambda found: found.completed == 3)
        assert (await there.desk.cancel(batch.id, None)).status is Status.CANCELLING
        batch = await there.ended(batch)
        assert (batch.status, batch.completed, batch.failed) == (Status.CANCELLED, 3, 2)
        errors = await there.lines(batch.error_file_id)
        assert {line["error"]["code"] for line in errors} == {"batch_cancelled"}


async def test_a_batch_whose_key_is_gone_runs_no_further_line_and_says_why(tmp_path: Path) -> None:
    gone = KeyGone("The key is gone.")
    script: dict[str, Sequence[Ending]] = {f"id-{n}": [TryAgain(), *[gone] * 99] for n in range(5, 40)}
    async with works(tmp_path, script, concurrency=1) as there:
        batch = await there.batch(40)
        await there.until(batch, lambda _: len(there.executor.runs) == 40)
        there.now += 2
        batch = await there.ended(batch)
        assert (batch.status, batch.completed, batch.failed) == (Status.CANCELLED, 5, 35)
        assert [(each.code, each.message) for each in batch.problems] == [("invalid_api_key", "The key is gone.")]
        assert len(there.executor.runs) < 48
        assert len(await there.lines(batch.output_file_id)) == 5
        errors = await there.lines(batch.error_file_id)
        assert {line["error"]["code"] for line in errors} == {"batch_cancelled"}


async def test_a_batch_whose_key_is_gone_before_it_begins_fails(tmp_path: Path) -> None:
    async with works(tmp_path) as there:
        there.bound = 0
        batch = await there.ended(await there.batch(3))
        assert (batch.status, batch.problems[0].code, there.executor.runs) == (Status.FAILED, "invalid_api_key", [])


async def test_a_batch_beyond_what_its_key_may_have_waiting_fails_as_at_openai(tmp_path: Path) -> None:
    script: dict[str, Sequence[Ending]] = {f"id-{n}": [LaneDown(None)] * 9999 for n in range(3)}
    async with works(tmp_path, script) as there:
        there.bound = 5
        waiting = await there.until(await there.batch(3), lambda found: found.status is Status.IN_PROGRESS)
        refused = await there.ended(await there.batch(3))
        assert (refused.status, refused.problems[0].code) == (Status.FAILED, "line_limit_exceeded")
        assert "Limit: 5 enqueued lines" in refused.problems[0].message
        await there.desk.cancel(waiting.id, None)
        there.executor.script.clear()
        assert (await there.ended(await there.batch(5))).status is Status.COMPLETED


async def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """Case H69: the reason can be read, and the results are written once there is room."""
    disk = FullDisk(tmp_path / "files")
    async with works(tmp_path, output=disk) as there:
        batch = await there.batch(3)
        stuck = await there.until(batch, lambda found: bool(found.problems))
        assert (stuck.status, stuck.problems[0].code) == (Status.FINALIZING, "storage_error")
        assert "No space left on device" in stuck.problems[0].message
        other = await there.batch_of(b"nonsense")
        assert (await there.ended(other)).status is Status.FAILED
        disk.full = False
        there.now += 60
        batch = await there.ended(batch)
        assert (batch.status, batch.problems, batch.completed) == (Status.COMPLETED, (), 3)
        assert len(await there.lines(batch.output_file_id)) == 3


async def test_a_disk_that_stays_full_fails_the_batch_and_its_results_are_written_once_there_is_room(
    tmp_path: Path,
) -> None:
    """Case H69: failed with the reason, and nothing that was answered is lost."""
    disk = FullDisk(tmp_path / "files")
    async with works(tmp_path, {"id-1": [bad("id-1")]}, output=disk) as there:
        batch = await there.batch(3)

        def later(found: Batch) -> bool:
            there.now += 10 if found.problems else 0
            return found.over

        failed = await there.until(batch, later)
        assert (failed.status, failed.output_file_id) == (Status.FAILED, None)
        assert (failed.problems[0].code, failed.failed_at is None) == ("storage_error", False)
        assert "No space left on device" in failed.problems[0].message
        assert 900 <= (failed.failed_at or 0) - (failed.finalizing_at or 0) < 2000
        disk.full = False
        there.now += 600
        written = await there.until(batch, lambda found: found.output_file_id is not None)
        assert (written.status, written.failed_at) == (Status.FAILED, failed.failed_at)
        assert [line["custom_id"] for line in await there.lines(written.output_file_id)] == ["id-0", "id-2"]
        assert [line["custom_id"] for line in await there.lines(written.error_file_id)] == ["id-1"]
        assert await there.ledger.claim_batch(Worker("three"), there.now + 9999) is None


async def test_a_batch_that_is_cancelled_while_the_disk_is_full_does_not_stay_so_for_ever(tmp_path: Path) -> None:
    """Case H69."""
    disk = FullDisk(tmp_path / "files")
    async with works(tmp_path, {"id-1": [TryAgain()] * 99}, output=disk) as there:
        batch = await there.batch(3)
        await there.until(batch, lambda found: found.completed == 2)
        await there.desk.cancel(batch.id, None)
        await there.until(batch, lambda found: bool(found.problems))
        there.now += 1000
        assert (await there.ended(batch)).status is Status.FAILED


async def test_an_expired_batch_stays_expired_however_often_its_files_are_tried(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path / "files")
    async with works(tmp_path, {"id-1": [TryAgain()] * 99}, output=disk) as there:
        batch = await there.batch(3)
        await there.until(batch, lambda found: found.completed == 2)
        there.now += 86400
        await there.until(batch, lambda found: bool(found.problems))
        disk.full = False
        there.now += 60
        batch = await there.ended(batch)
        assert (batch.status, batch.completed, batch.failed) == (Status.EXPIRED, 2, 1)


async def test_an_input_file_that_is_gone_fails_the_batch(tmp_path: Path) -> None:
    async with works(tmp_path) as there:
        there.runner.drain()
        batch = await there.batch(1)
        there.blobs.delete(batch.input_file_id)
    async with works(tmp_path, worker="two") as there:
        batch = await there.ended(batch)
        assert (batch.status, batch.problems[0].param) == (Status.FAILED, "input_file_id")


async def test_a_stop_cuts_the_lines_that_run_and_gives_them_back(tmp_path: Path) -> None:
    async with works(tmp_path, {"id-1": [None]}) as there:
        batch = await there.batch(3)
        await there.until(batch, lambda found: found.completed == 2)
    async with works(tmp_path, worker="two") as there:
        batch = await there.ended(batch)
        assert (batch.completed, there.executor.runs) == (3, ["id-1"])


async def test_what_is_claimed_while_a_stop_comes_is_not_begun(tmp_path: Path) -> None:
    async with works(tmp_path) as there:
        claim = there.ledger.claim_lines

        async def claim_and_stop(*asked: Any) -> list[Line]:
            if claimed := await claim(*asked):
                there.runner.stop()
            return claimed

        there.runner.ledger = SimpleNamespace(**_methods(there.ledger) | {"claim_lines": claim_and_stop})
        batch = await there.batch(3)
        async with asyncio.timeout(5):
            while not there.runner.stopped:  # noqa: ASYNC110 - a stop has no bell
                await asyncio.sleep(0.01)
        assert there.executor.runs == []
    async with works(tmp_path, worker="two") as there:
        assert (await there.ended(batch)).completed == 3


def _methods(ledger: SqlLedger) -> dict[str, Any]:
    return {name: getattr(ledger, name) for name in dir(ledger) if not name.startswith("_")}


async def test_two_runners_share_a_batch_and_each_line_runs_once(tmp_path: Path) -> None:
    async with works(tmp_path) as one, works(tmp_path, worker="two") as two:
        batch = await one.ended(await one.batch(60))
        runs = one.executor.runs + two.executor.runs
        assert sorted(runs) == sorted(f"id-{n}" for n in range(60))
        assert one.executor.runs
        assert two.executor.runs
        assert (batch.completed, len(await two.lines(batch.output_file_id))) == (60, 60)


async def test_files_that_have_expired_are_removed(tmp_path: Path) -> None:
    async with works(tmp_path) as there:
        batch = await there.ended(await there.batch(1))
    async with works(tmp_path, worker="two") as there:
        there.now += 31 * 86400
        there.runner.wake()
        async with asyncio.timeout(5):
            while list((tmp_path / "files").iterdir()):
                there.runner.mover._cleaned_at = float("-inf")
                there.runner.wake()
                await asyncio.sleep(0.02)
        assert await there.desk.files(None, purpose=None, after=None, limit=9, oldest_first=True) == ([], False)
        assert (await there.desk.batch(batch.id, None)).output_file_id is not None


@pytest.mark.parametrize("lines", [1, 137])
async def test_lines_are_assembled_in_the_order_of_the_input(tmp_path: Path, lines: int) -> None:
    async with works(tmp_path, concurrency=16) as there:
        batch = await there.ended(await there.batch(lines))
        ids = [line["custom_id"] for line in await there.lines(batch.output_file_id)]
        assert ids == [f"id-{n}" for n in range(lines)]
