"""What every store promises, held to SQLite and, with `make test-postgres`, to PostgreSQL."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gateway.batch.census import Census
from gateway.batch.jobs import SETTLE_S, Batch, File, LineState, NewLine, Problem, Purpose, Result, Status, Usage
from gateway.batch.sql import Database, SqlCatalogue, SqlLedger
from gateway.batch.sql.tables import metadata
from gateway.batch.store import LeaseLost, LinesExceeded, StoreUnavailable, Worker
from tests.fakes.running_postgres import binaries, running_postgres

NOW = 1_800_000_000
ONE, OTHER = Worker("one", 60), Worker("other", 60)
POSTGRES = pytest.param(
    "postgres",
    marks=[pytest.mark.postgres, pytest.mark.skipif(binaries() is None, reason="postgresql is not installed")],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite3'}"
    server: str = request.getfixturevalue("server")
    asyncio.run(_emptied(server))
    return server


async def _emptied(url: str) -> None:
    database = Database(url)
    async with database.writing() as connection:
        await connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        await connection.exec_driver_sql("CREATE SCHEMA public")
    await database.aclose()


class Store:
    """Both protocols over one database, and short ways to get somewhere."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.catalogue = SqlCatalogue(database)
        self.ledger = SqlLedger(database)

    async def batch(self, name: str = "batch_1", **changes: object) -> Batch:
        batch = Batch(
            seq=0, id=name, owner=None, endpoint="/v1/chat/completions", input_file_id="file-1",
            completion_window="24h", status=Status.VALIDATING, created_at=NOW, expires_at=NOW + 86400,
        )  # fmt: skip
        return await self.catalogue.add_batch(replace(batch, **changes))  # type: ignore[arg-type]

    async def running(self, lines: int = 3, name: str = "batch_1", prefix: str = "p", **changes: object) -> Batch:
        """A batch in progress whose lines wait."""
        await self.batch(name, **changes)
        claimed = await self.claimed(ONE)
        new = [NewLine(n + 1, f"id-{n + 1}", n * 10, 10, prefix) for n in range(lines)]
        await self.ledger.add_lines(ONE, claimed, new, NOW)
        await self.ledger.begin(ONE, claimed, model="m", total=lines, now=NOW)
        return await self.again(name, claimed.owner)

    async def again(self, name: str = "batch_1", owner: str | None = None) -> Batch:
        found = await self.catalogue.batch(name, owner)
        assert found is not None
        return found

    async def claimed(self, worker: Worker, now: float = NOW) -> Batch:
        found = await self.ledger.claim_batch(worker, now)
        assert found is not None
        return found

    async def numbers(self, worker: Worker, limit: int, now: float = NOW, after: int = 0) -> list[int]:
        return [line.number for line in await self.ledger.claim_lines(worker, now, limit, after)]


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    database = Database(url)
    await database.migrate()
    yield Store(database)
    await database.aclose()


def done(text: str = "{}") -> Result:
    return Result(LineState.DONE, text.encode(), Usage(1, 2, 3, 4))


async def test_the_migrations_make_the_tables_that_the_program_uses(store: Store) -> None:
    def differences(connection: sqlalchemy.Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    async with store.database.reading() as connection:
        assert await connection.run_sync(differences) == []


async def test_several_gateways_may_migrate_at_once(url: str) -> None:
    databases = [Database(url) for _ in range(4)]
    await asyncio.gather(*(database.migrate() for database in databases))
    await asyncio.gather(*(database.aclose() for database in databases))


async def test_who_reads_does_not_wait_for_who_writes(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/file")
    await database.migrate()
    async with asyncio.timeout(5), database.writing() as writer:
        await writer.exec_driver_sql("UPDATE batches SET model = 'm'")
        assert await SqlCatalogue(database).batch("batch_1", None) is None
    await database.aclose()


async def test_a_database_that_cannot_be_opened_is_told_as_one_error(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/none/file", "postgresql://u@127.0.0.1:1/none"):
        database = Database(url)
        with pytest.raises(StoreUnavailable):
            await database.migrate()
        await database.aclose()


async def test_a_batch_comes_back_as_it_was_kept(store: Store) -> None:
    kept = await store.batch(metadata={"a": "ä"}, output_ttl=3600, owner="key-1", problems=(Problem("c", "m", 7, "p"),))
    assert kept.seq > 0
    assert await store.catalogue.batch("batch_1", "key-1") == kept
    assert await store.catalogue.batch("batch_1", None) is None
    assert await store.catalogue.batch("batch_1", "key-2") is None


async def test_pages_go_from_new_to_old_and_know_their_end(store: Store) -> None:
    for n in range(5):
        await store.batch(f"batch_{n}", owner="key" if n == 2 else None)
    first, more = await store.catalogue.batches(None, after=None, limit=2)
    assert ([b.id for b in first], more) == (["batch_4", "batch_3"], True)
    rest, more = await store.catalogue.batches(None, after="batch_3", limit=2)
    assert ([b.id for b in rest], more) == (["batch_1", "batch_0"], False)
    with pytest.raises(KeyError):
        await store.catalogue.batches(None, after="batch_2", limit=2)


def a_file(n: int, **changes: object) -> File:
    file = File(f"file-{n}", None, "ä.jsonl", Purpose.BATCH, 5 * 2**31, NOW, NOW + 10)
    return replace(file, **changes)  # type: ignore[arg-type]


async def test_files_are_listed_by_purpose_in_either_order_until_they_expire(store: Store) -> None:
    for n in range(4):
        await store.catalogue.add_file(a_file(n, purpose=Purpose.BATCH_OUTPUT if n == 3 else Purpose.BATCH))
    listing = SimpleNamespace(purpose=None, after=None, limit=9, oldest_first=False)

    async def ids(now: int = NOW, **changes: object) -> list[str]:
        found, _ = await store.catalogue.files(None, now, **vars(listing) | changes)
        return [file.id for file in found]

    assert await ids() == ["file-3", "file-2", "file-1", "file-0"]
    assert await ids(purpose="batch", oldest_first=True) == ["file-0", "file-1", "file-2"]
    assert await ids(after="file-1", oldest_first=True) == ["file-2", "file-3"]
    assert await ids(now=NOW + 10) == []
    assert await store.catalogue.file("file-1", None, NOW) == a_file(1)
    assert await store.catalogue.file("file-1", None, NOW + 10) is None
    assert await store.catalogue.file_ids() == {"file-0", "file-1", "file-2", "file-3"}


async def test_a_file_that_a_batch_reads_is_not_spent(store: Store) -> None:
    for n in (1, 2):
        await store.catalogue.add_file(a_file(n))
    await store.batch()
    assert await store.catalogue.reads("file-1") == "batch_1"
    assert await store.catalogue.reads("file-2") is None
    assert await store.catalogue.spent_files(NOW + 10) == ["file-2"]
    await store.ledger.fail(ONE, await store.claimed(ONE), [Problem("c", "m")], NOW)
    assert await store.catalogue.reads("file-1") is None


async def test_a_batch_is_moved_by_one_worker_at_a_time(store: Store) -> None:
    await store.batch()
    assert (await store.claimed(ONE)).id == "batch_1"
    assert await store.ledger.claim_batch(OTHER, NOW + 59) is None
    assert (await store.claimed(OTHER, NOW + 61)).id == "batch_1"


async def test_what_a_worker_held_from_before_it_may_take_up_again(store: Store) -> None:
    await store.batch()
    assert await store.claimed(ONE) == await store.claimed(ONE)
    assert await store.ledger.claim_batch(ONE, NOW, [1]) is None


async def test_whoever_lost_a_batch_changes_nothing(store: Store) -> None:
    await store.batch()
    lost = await store.claimed(ONE)
    await store.claimed(OTHER, NOW + 61)
    for change in (
        store.ledger.add_lines(ONE, lost, [NewLine(1, "a", 0, 1, "p")], NOW),
        store.ledger.begin(ONE, lost, model="m", total=1, now=NOW),
        store.ledger.fail(ONE, lost, [], NOW),
        store.ledger.settle(ONE, lost, NOW),
        store.ledger.give_up(ONE, lost, Problem("c", "m"), NOW),
        store.ledger.close(ONE, replace(lost, ending="completed"), None, None, NOW),
    ):
        with pytest.raises(LeaseLost):
            await change
    assert (await store.again()).status is Status.VALIDATING
    assert await store.ledger.outcomes(lost, 0, 9) == []


async def test_a_batch_that_is_cancelled_while_it_is_validated_does_not_begin(store: Store) -> None:
    await store.batch()
    claimed = await store.claimed(ONE)
    await store.catalogue.cancel("batch_1", NOW + 5)
    with pytest.raises(LeaseLost):
        await store.ledger.begin(ONE, claimed, model="m", total=1, now=NOW)
    cancelled = await store.again()
    assert (cancelled.status, cancelled.cancelling_at) == (Status.CANCELLING, NOW + 5)


async def test_nothing_runs_before_the_whole_file_is_valid(store: Store) -> None:
    """Case H68."""
    await store.batch()
    claimed = await store.claimed(ONE)
    await store.ledger.add_lines(ONE, claimed, [NewLine(1, "a", 0, 1, "p")], NOW)
    assert await store.numbers(ONE, 9) == []


async def test_lines_are_given_out_once_in_the_order_of_their_prefix(store: Store) -> None:
    await store.batch()
    claimed = await store.claimed(ONE)
    new = [NewLine(n, f"id-{n}", 0, 1, prefix) for n, prefix in enumerate("bab", start=1)]
    await store.ledger.add_lines(ONE, claimed, new, NOW)
    await store.ledger.begin(ONE, claimed, model="m", total=3, now=NOW)
    assert await store.numbers(ONE, 2) == [2, 1]
    assert await store.numbers(OTHER, 9) == [3]
    assert await store.numbers(OTHER, 9) == []


async def test_batches_take_turns(store: Store) -> None:
    one, two = [await store.running(name=f"batch_{n}") for n in (1, 2)]
    turns, after = [], 0
    for _ in range(4):
        [line] = await store.ledger.claim_lines(ONE, NOW, 1, after)
        turns.append(after := line.batch)
    assert turns == [one.seq, two.seq] * 2


async def test_two_workers_that_claim_at_once_never_get_the_same_line(store: Store) -> None:
    await store.running(lines=40)
    workers = [Worker(f"worker-{n}", 60) for n in range(4)]
    claims = await asyncio.gather(*(store.numbers(workers[n % 4], 3) for n in range(16)))
    numbers = [number for claim in claims for number in claim]
    assert sorted(numbers) == sorted(set(numbers))


async def test_a_dead_workers_lines_are_taken_over_when_its_leases_end(store: Store) -> None:
    await store.running(lines=2)
    assert await store.numbers(ONE, 9) == [1, 2]
    assert await store.numbers(OTHER, 9, NOW + 59) == []
    assert await store.numbers(OTHER, 9, NOW + 61) == [1, 2]


async def test_a_worker_that_lives_prolongs_its_leases(store: Store) -> None:
    await store.running(lines=2)
    await store.numbers(ONE, 9)
    await store.ledger.renew(ONE, NOW + 50)
    assert await store.numbers(OTHER, 9, NOW + 109) == []


async def test_a_worker_that_stops_gives_its_leases_back(store: Store) -> None:
    await store.running(lines=2)
    await store.numbers(ONE, 9)
    await store.ledger.release(ONE)
    assert await store.numbers(OTHER, 9) == [1, 2]


async def test_a_line_has_one_result_whoever_else_ran_it(store: Store) -> None:
    """Case H69: a worker that was believed dead comes back with its answer."""
    await store.running(lines=1)
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    await store.ledger.claim_lines(OTHER, NOW + 61, 1, 0)
    assert not await store.ledger.record(ONE, line, done('"late"'))
    assert await store.ledger.record(OTHER, line, done('"first"'))
    assert not await store.ledger.record(OTHER, line, done('"second"'))
    batch = await store.again()
    assert (batch.completed, batch.failed, batch.usage) == (1, 0, Usage(1, 2, 3, 4))
    assert [o.output for o in await store.ledger.outcomes(batch, 0, 9)] == [b'"first"']


async def test_results_that_come_at_once_are_all_counted(store: Store) -> None:
    await store.running(lines=20)
    lines = await store.ledger.claim_lines(ONE, NOW, 20, 0)
    results = [done() if line.number % 2 else Result(LineState.FAILED, b"{}") for line in lines]
    await asyncio.gather(*(store.ledger.record(ONE, *each) for each in zip(lines, results, strict=True)))
    batch = await store.again()
    assert (batch.completed, batch.failed, batch.usage) == (10, 10, Usage(10, 20, 30, 40))


async def test_a_line_that_is_put_back_waits_for_its_time_and_counts_its_failures(store: Store) -> None:
    await store.running(lines=1)
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    await store.ledger.put_back(ONE, line, not_before=NOW + 5, failed=True)
    assert await store.numbers(ONE, 1, NOW + 4) == []
    [again] = await store.ledger.claim_lines(ONE, NOW + 5, 1, 0)
    assert again.attempts == 1
    await store.ledger.put_back(ONE, again, not_before=0, failed=False)
    [again] = await store.ledger.claim_lines(OTHER, NOW + 5, 1, 0)
    assert again.attempts == 1


async def test_a_whole_batch_is_settled_written_and_forgets_its_lines(store: Store) -> None:
    await store.running(lines=2)
    assert await store.ledger.claim_batch(ONE, NOW) is None
    for line in await store.ledger.claim_lines(ONE, NOW, 9, 0):
        await store.ledger.record(ONE, line, done(json.dumps(line.custom_id)))
    batch = await store.ledger.settle(ONE, await store.claimed(ONE), NOW + 1)
    assert (batch.status, batch.ending, batch.finalizing_at) == (Status.FINALIZING, "completed", NOW + 1)
    assert [o.output for o in await store.ledger.outcomes(batch, 0, 9)] == [b'"id-1"', b'"id-2"']
    assert [o.number for o in await store.ledger.outcomes(batch, 1, 9)] == [2]
    await store.ledger.close(ONE, batch, a_file(7), None, NOW + 2)
    closed = await store.again()
    assert (closed.status, closed.completed_at, closed.output_file_id) == (Status.COMPLETED, NOW + 2, "file-7")
    assert closed.over
    assert await store.ledger.outcomes(batch, 0, 9) == []
    assert await store.ledger.claim_batch(ONE, NOW + 99) is None


async def test_an_expired_batch_keeps_what_is_done(store: Store) -> None:
    """Case H69."""
    await store.running(lines=3)
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    await store.ledger.record(ONE, line, done())
    late = NOW + 86400
    assert await store.numbers(ONE, 9, late) == []
    batch = await store.ledger.settle(ONE, await store.claimed(ONE, late), late)
    assert (batch.ending, batch.completed, batch.failed) == ("expired", 1, 2)
    states = [o.state for o in await store.ledger.outcomes(batch, 0, 9)]
    assert states == [LineState.DONE, LineState.EXPIRED, LineState.EXPIRED]
    await store.ledger.close(ONE, batch, None, None, late)
    assert ((await store.again()).status, (await store.again()).expired_at) == (Status.EXPIRED, late)


async def test_a_cancelled_batch_waits_for_the_lines_that_run_but_not_for_ever(store: Store) -> None:
    await store.running(lines=2)
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    await store.catalogue.cancel("batch_1", NOW)
    assert await store.numbers(ONE, 9) == []
    assert await store.ledger.claim_batch(OTHER, NOW) is None
    await store.ledger.renew(ONE, NOW + SETTLE_S - 1)
    assert await store.ledger.claim_batch(OTHER, NOW + SETTLE_S - 1) is None
    batch = await store.ledger.settle(OTHER, await store.claimed(OTHER, NOW + SETTLE_S), NOW)
    assert (batch.status, batch.ending, batch.failed) == (Status.CANCELLING, "cancelled", 2)
    assert not await store.ledger.record(ONE, line, done())


async def test_a_batch_that_cannot_be_written_says_why_and_keeps_its_results(store: Store) -> None:
    """Case H69: the disk is full."""
    await store.running(lines=1)
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    await store.ledger.record(ONE, line, done())
    batch = await store.ledger.settle(ONE, await store.claimed(ONE), NOW)
    await store.ledger.complain(ONE, batch, Problem("storage_error", "No space left on device"))
    assert (await store.again()).problems == (Problem("storage_error", "No space left on device"),)
    again = await store.claimed(OTHER)
    assert (again.ending, len(await store.ledger.outcomes(again, 0, 9))) == ("completed", 1)


async def test_a_batch_that_failed_for_want_of_room_is_claimed_until_its_results_are_written(store: Store) -> None:
    """Case H69."""
    await store.running(lines=1)
    [line] = await store.ledger.claim_lines(ONE, NOW, 9, 0)
    await store.ledger.record(ONE, line, done())
    settled = await store.ledger.settle(ONE, await store.claimed(ONE), NOW)
    await store.ledger.complain(ONE, settled, Problem("storage_error", "not now"))
    await store.ledger.give_up(ONE, await store.claimed(ONE), Problem("storage_error", "full"), NOW + 1)
    failed = await store.claimed(OTHER)
    assert (failed.status, failed.failed_at) == (Status.FAILED, NOW + 1)
    assert failed.problems == (Problem("storage_error", "full"),)
    await store.ledger.let_go(OTHER, failed)
    failed = await store.claimed(ONE)
    assert len(await store.ledger.outcomes(failed, 0, 9)) == 1
    await store.ledger.close(ONE, failed, a_file(7), None, NOW + 2)
    closed = await store.again()
    assert (closed.status, closed.failed_at, closed.output_file_id) == (Status.FAILED, NOW + 1, "file-7")
    assert closed.problems == failed.problems
    assert await store.ledger.claim_batch(ONE, NOW + 999) is None
    assert await store.ledger.outcomes(closed, 0, 9) == []


async def test_a_batch_that_is_stopped_from_inside_says_why_and_keeps_saying_it(store: Store) -> None:
    batch = await store.running(lines=2)
    why = Problem("invalid_api_key", "The key is gone.")
    await store.ledger.stop(batch.seq, why, NOW + 5)
    await store.ledger.stop(batch.seq, Problem("other", "later"), NOW + 6)
    stopped = await store.again()
    assert (stopped.status, stopped.cancelling_at, stopped.problems) == (Status.CANCELLING, NOW + 5, (why,))
    assert await store.numbers(ONE, 9) == []
    settled = await store.ledger.settle(ONE, await store.claimed(ONE), NOW + 7)
    await store.ledger.complain(ONE, settled, Problem("storage_error", "not now"))
    await store.ledger.close(ONE, await store.claimed(ONE), None, None, NOW + 8)
    closed = await store.again()
    assert (closed.status, closed.problems) == (Status.CANCELLED, (why,))


async def test_the_lines_that_a_key_has_waiting_are_bounded(store: Store) -> None:
    one = await store.running(lines=3, name="batch_1", owner="key-1")
    await store.running(lines=50, name="batch_2", owner="key-2")
    await store.batch("batch_3", owner="key-1")
    claimed = await store.claimed(ONE)
    await store.ledger.add_lines(ONE, claimed, [NewLine(1, "a", 0, 1, "p")], NOW)
    with pytest.raises(LinesExceeded) as refusal:
        await store.ledger.begin(ONE, claimed, model="m", total=2, now=NOW, most=4)
    assert refusal.value.waiting == 3
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    assert line.batch == one.seq
    await store.ledger.record(ONE, line, done())
    await store.ledger.begin(ONE, claimed, model="m", total=2, now=NOW, most=4)
    assert (await store.again("batch_3", "key-1")).status is Status.IN_PROGRESS


async def test_two_batches_that_begin_at_once_share_the_bound_of_their_key(store: Store) -> None:
    claims = []
    for n in range(6):
        await store.batch(f"batch_{n}", owner="key-1")
        claims.append((Worker(f"w{n}"), await store.claimed(Worker(f"w{n}"))))
    begun = await asyncio.gather(
        *(store.ledger.begin(worker, batch, model="m", total=2, now=NOW, most=5) for worker, batch in claims),
        return_exceptions=True,
    )
    assert sum(each is None for each in begun) == 2
    assert {type(each) for each in begun if each is not None} == {LinesExceeded}


async def test_a_census_counts_what_is_not_over(store: Store) -> None:
    assert await store.ledger.census() == Census({}, 0)
    await store.running(lines=3)
    [line] = await store.ledger.claim_lines(ONE, NOW, 1, 0)
    await store.ledger.record(ONE, line, done())
    await store.running(lines=5, name="batch_2", owner="key-1")
    await store.batch("batch_3")
    await store.batch("batch_4", status=Status.COMPLETED, total=9)
    assert await store.ledger.census() == Census({Status.IN_PROGRESS: 2, Status.VALIDATING: 1}, 7)
