"""Coroutines that are run without a task as far as they go."""

import asyncio

import pytest

from app.begun import begin


async def test_a_coroutine_that_need_not_wait_has_run_to_its_end() -> None:
    done: list[int] = []

    async def short() -> None:
        done.append(1)

    assert begin(short()) is None
    assert done == [1]


async def test_one_that_has_to_wait_goes_on_when_it_is_awaited() -> None:
    done: list[int] = []
    gate = asyncio.Event()

    async def long() -> None:
        done.append(1)
        await gate.wait()
        done.append(2)
        await asyncio.sleep(0)
        done.append(3)

    rest = begin(long())
    assert rest is not None
    assert (done, rest.done) == ([1], False)
    asyncio.get_running_loop().call_soon(gate.set)
    await rest
    assert (done, rest.done) == ([1, 2, 3], True)


async def test_a_cancelled_wait_cancels_the_coroutine() -> None:
    ended: list[str] = []

    async def long() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    rest = begin(long())
    assert rest is not None

    async def waits() -> None:
        await rest

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]
    assert rest.done


async def test_what_it_raises_is_raised_where_it_is_run() -> None:
    async def fails(wait: bool) -> None:
        if wait:
            await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(fails(wait=False))
    rest = begin(fails(wait=True))
    assert rest is not None
    with pytest.raises(ValueError, match="no"):
        await rest
