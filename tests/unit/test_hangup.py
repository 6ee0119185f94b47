"""A client that leaves, or is cut, ends the block; nothing else does, and no watcher is left."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.hangup import Hangup
from gateway.errors import ClientGone, ClientTooSlow, Draining, EngineBroke


class PlayedClient:
    """ASGI's `receive` of a client that leaves when it is told to."""

    def __init__(self, *before: str) -> None:
        self.left = asyncio.Event()
        self._before = list(before)

    async def __call__(self) -> Any:
        if self._before:
            return {"type": self._before.pop(0)}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def block(hangup: Hangup, *acts: Callable[[], None], until: Awaitable[None] | None = None) -> None:
    """A block that waits for a minute, or for `until`; what is done to it meanwhile are the acts."""
    async with hangup:
        for act in acts:
            asyncio.get_running_loop().call_soon(act)
        await (until or asyncio.sleep(60))


async def test_a_block_that_ends_by_itself_is_left_alone() -> None:
    client = PlayedClient()
    async with Hangup(client):
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_a_client_that_leaves_ends_the_block() -> None:
    """Case H2."""
    client = PlayedClient("http.request", "http.request")
    with pytest.raises(ClientGone):
        await block(Hangup(client), client.left.set)
    assert len(asyncio.all_tasks()) == 1
    assert not _task().cancelling()


async def test_what_cuts_the_block_is_what_leaves_it() -> None:
    hangup = Hangup(PlayedClient())
    with pytest.raises(ClientTooSlow):
        await block(hangup, lambda: hangup.cut(ClientTooSlow()))


async def test_the_first_cut_counts() -> None:
    hangup = Hangup(PlayedClient())
    with pytest.raises(Draining):
        await block(hangup, lambda: hangup.cut(Draining("", retry_after=1)), lambda: hangup.cut(ClientTooSlow()))


async def test_a_cut_before_or_after_the_block_does_nothing() -> None:
    hangup = Hangup(PlayedClient())
    hangup.cut(ClientTooSlow())
    async with hangup:
        await asyncio.sleep(0)
    hangup.cut(ClientTooSlow())
    await asyncio.sleep(0)
    assert not _task().cancelling()


async def test_a_block_that_fails_fails_with_its_own_error() -> None:
    with pytest.raises(EngineBroke):
        async with Hangup(PlayedClient()):
            raise EngineBroke


async def test_a_cut_in_the_very_tick_in_which_the_block_goes_on_counts() -> None:
    hangup = Hangup(PlayedClient())
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def both() -> None:
        answer.set_exception(EngineBroke())
        hangup.cut(ClientGone())

    with pytest.raises(ClientGone):
        await block(hangup, both, until=answer)
    assert answer.exception()
    assert not _task().cancelling()


async def test_a_cancellation_from_elsewhere_passes_as_what_it_is() -> None:
    """Case H59: the end of the service is not a client that left."""
    task = asyncio.create_task(block(Hangup(PlayedClient())))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asyncio.all_tasks()) == 1


async def test_a_timeout_within_the_block_is_told_from_a_cut() -> None:
    hangup = Hangup(PlayedClient())

    async def patient(seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await asyncio.sleep(60)

    with pytest.raises(ClientGone):
        await block(hangup, lambda: hangup.cut(ClientGone()), until=patient(60))
    with pytest.raises(TimeoutError):
        await block(Hangup(PlayedClient()), until=patient(0.01))


def _task() -> "asyncio.Task[object]":
    task = asyncio.current_task()
    assert task is not None
    return task


class PlayedServer:
    """A server that tells whoever listens."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []

    def listen(self, tell: Callable[[], None]) -> Callable[[], None]:
        self.listeners.append(tell)
        return lambda: self.listeners.remove(tell)

    def lose(self) -> None:
        for tell in self.listeners:
            tell()


async def test_a_server_that_tells_of_it_needs_no_watcher() -> None:
    server = PlayedServer()
    tasks = len(asyncio.all_tasks())
    hangup = Hangup(PlayedClient(), server.listen)
    with pytest.raises(ClientGone):
        await block(hangup, lambda: _same(len(asyncio.all_tasks()), tasks), server.lose)
    assert server.listeners == []


async def test_who_has_left_the_block_does_not_listen_any_more() -> None:
    server = PlayedServer()
    async with Hangup(PlayedClient(), server.listen):
        await asyncio.sleep(0)
    assert server.listeners == []


def _same(one: int, other: int) -> None:
    assert one == other
