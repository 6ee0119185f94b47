"""Gateways as processes that are killed, and several that share their work: each line has exactly one result."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.fakes.echo_engine import EchoEngine
from tests.fakes.gateway_process import gateway_process

LINES = 32


def names() -> dict[str, str]:
    return {f"id-{n}": f"id-{n}" for n in range(LINES)}


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)


def recorded(folder: Path) -> set[str]:
    """The lines whose result is in the database."""
    with closing(sqlite3.connect(folder / "batch.sqlite3")) as database:
        return {row[0] for row in database.execute("SELECT custom_id FROM batch_lines WHERE state <> 'pending'")}


async def test_a_gateway_that_is_killed_or_stopped_leaves_its_work_to_the_next(tmp_path: Path) -> None:
    """Cases H61 H69: no finished line runs again, none is lost; a stop gives back at once what it does not finish."""
    async with EchoEngine(delay=0.1) as engine:
        async with gateway_process(tmp_path, engine.url) as first:
            batch = await first.batch(LINES)
            await until(lambda: engine.ended.total() >= LINES // 4)
            await first.kill()
        finished = recorded(tmp_path)
        assert 0 < len(finished) < LINES
        async with gateway_process(tmp_path, engine.url, lease_s=600) as second:
            await until(lambda: engine.ended.total() >= LINES // 2)
            assert await second.terminate() == 0
        asked = engine.begun.copy()
        async with gateway_process(tmp_path, engine.url, lease_s=600) as third:
            ended = await third.ended(batch.id)
            assert (ended.status, ended.error_file_id) == ("completed", None)
            assert ended.request_counts is not None
            assert ended.request_counts.completed == LINES
            assert await third.answers(ended) == names()
        assert {name: engine.begun[name] for name in finished} == dict.fromkeys(finished, 1)
        assert engine.begun.total() <= LINES + engine.most
        assert not (engine.begun - asked) & asked
        left = [path.name for path in (tmp_path / "files").iterdir()]
        assert sorted(left) == sorted([ended.input_file_id, str(ended.output_file_id)])


async def test_two_gateways_on_one_file_share_a_batch_and_one_ends_what_the_other_left(tmp_path: Path) -> None:
    """Case H62: a line runs once, whoever runs it."""
    async with (
        EchoEngine(delay=0.1) as engine,
        EchoEngine(delay=0.1) as other_engine,
        gateway_process(tmp_path, engine.url) as first,
        gateway_process(tmp_path, other_engine.url) as second,
    ):
        await second.openai.batches.list()
        shared = await first.ended((await first.batch(LINES)).id)
        assert await second.answers(await second.openai.batches.retrieve(shared.id)) == names()
        assert engine.begun + other_engine.begun == dict.fromkeys(names(), 1)
        assert engine.begun
        assert other_engine.begun
        left = await first.batch(LINES)
        await until(lambda: engine.ended.total() + other_engine.ended.total() >= LINES + LINES // 3)
        await first.kill()
        assert await second.answers(await second.ended(left.id)) == names()
