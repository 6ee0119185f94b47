"""Several gateways on one PostgreSQL, killed and stopped in the middle: each line has exactly one result."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.batch.sql import Database
from tests.fakes.echo_engine import EchoEngine
from tests.fakes.gateway_process import GatewayProcess, gateway_process
from tests.fakes.running_postgres import Postgres, binaries, running_postgres

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(binaries() is None, reason="postgresql is not installed"),
]

LINES = 60
NAMES = {f"id-{n}": f"id-{n}" for n in range(LINES)}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_postgres(tmp_path / "postgres") as url:
        yield url


async def recorded(url: str) -> set[str]:
    """The lines whose result is in the database."""
    database = Database(url)
    async with database.reading() as connection:
        rows = await connection.exec_driver_sql("SELECT custom_id FROM batch_lines WHERE state <> 'pending'")
        found = {row[0] for row in rows}
    await database.aclose()
    return found


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)


async def completed(gateway: GatewayProcess, batch_id: str) -> None:
    batch = await gateway.ended(batch_id)
    assert (batch.status, batch.error_file_id) == ("completed", None)
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": LINES, "completed": LINES, "failed": 0}
    assert await gateway.answers(batch) == NAMES


async def test_one_is_killed_one_is_stopped_and_the_third_ends_the_batch(url: str, tmp_path: Path) -> None:
    """Cases H61 H62 H69."""
    data = tmp_path / "data"
    async with (
        EchoEngine(delay=0.2) as one_engine,
        EchoEngine(delay=0.2) as two_engine,
        EchoEngine(delay=0.2) as three_engine,
        gateway_process(data, one_engine.url, database_url=url) as one,
        gateway_process(data, two_engine.url, database_url=url) as two,
    ):
        engines = (one_engine, two_engine, three_engine)
        batch = await one.batch(LINES)
        await until(lambda: one_engine.ended.total() >= 6 and two_engine.ended.total() >= 6)
        await one.kill()
        finished = await recorded(url)
        assert await two.terminate() == 0
        assert 0 < len(finished) < LINES
        async with gateway_process(data, three_engine.url, database_url=url) as three:
            await completed(three, batch.id)
        begun = sum((engine.begun for engine in engines), start=type(one_engine.begun)())
        assert {name: begun[name] for name in finished} == dict.fromkeys(finished, 1)
        assert begun.total() <= LINES + one_engine.most
        assert all(engine.begun for engine in engines)
        assert set(begun.values()) <= {1, 2}


async def test_gateways_that_start_at_once_share_a_batch_and_run_each_line_once(url: str, tmp_path: Path) -> None:
    """Case H62."""
    data = tmp_path / "data"
    async with (
        EchoEngine(delay=0.1) as one_engine,
        EchoEngine(delay=0.1) as two_engine,
        gateway_process(data, one_engine.url, database_url=url) as one,
        gateway_process(data, two_engine.url, database_url=url) as two,
    ):
        batches = await asyncio.gather(one.batch(LINES), two.batch(LINES))
        for batch in batches:
            await completed(one, batch.id)
            await completed(two, batch.id)
        assert one_engine.begun + two_engine.begun == dict.fromkeys(NAMES, 2)
        assert one_engine.begun
        assert two_engine.begun


async def test_a_database_that_restarts_costs_no_line(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres")
    server.start()
    try:
        async with (
            EchoEngine(delay=0.1) as engine,
            gateway_process(tmp_path / "data", engine.url, database_url=server.url, lease_s=60) as gateway,
        ):
            batch = await gateway.batch(LINES)
            await until(lambda: engine.ended.total() >= 10)
            server.stop()
            await asyncio.sleep(1)
            server.start()
            await completed(gateway, batch.id)
            assert engine.begun == dict.fromkeys(NAMES, 1)
    finally:
        server.stop()
