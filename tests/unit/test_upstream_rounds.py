"""`gateway/upstream/rounds.py`, with real sockets and a real event loop."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from gateway.ticker import TICK, Ticker
from gateway.upstream.rounds import AT_ONCE, LOOKED_AT, TURN, Rounds


class Stream:
    """The gateway's end of a socket, read until nothing is there, and the engine's end."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.came: list[bytes] = []
        self.at: list[int] = []

    def read(self) -> int:
        global_order.append(self)
        try:
            self.came.append(self.ours.recv(1))
        except BlockingIOError:
            return 0
        return TURN // 16 if self.came[-1] else 0

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


global_order: list[Stream] = []


@pytest.fixture
async def rounds() -> Rounds:
    return Rounds(Ticker(asyncio.get_running_loop()))


@pytest.fixture
def streams() -> Iterator[list[Stream]]:
    global_order.clear()
    made = [Stream() for _ in range(AT_ONCE + 10)]
    yield made
    for stream in made:
        stream.close()


def join(rounds: Rounds, *streams: Stream) -> None:
    for stream in streams:
        rounds.join(stream.ours.fileno(), stream.read)


async def until_read(count: int) -> None:
    async with asyncio.timeout(10):
        while len(global_order) < count:  # noqa: ASYNC110 - turns of the loop are what is counted
            await asyncio.sleep(0)


async def test_a_stream_is_read_as_soon_as_something_is_there_while_that_is_rare(
    rounds: Rounds, streams: list[Stream]
) -> None:
    one = streams[0]
    join(rounds, one)
    for number in range(3):
        one.theirs.send(b"x")
        turns = 0
        while len(one.came) <= number:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 10
        await asyncio.sleep(2 * TICK)
    rounds.close()


async def test_the_end_of_a_stream_is_something_to_read(rounds: Rounds, streams: list[Stream]) -> None:
    one = streams[0]
    join(rounds, one)
    one.theirs.close()
    await until_read(1)
    assert one.came[0] == b""
    rounds.leave(one.ours.fileno())
    rounds.close()


async def test_a_stream_that_left_is_not_read_even_if_it_was_ready_in_the_same_turn(
    rounds: Rounds, streams: list[Stream]
) -> None:
    one, other = streams[:2]

    def read_and_dismiss() -> int:
        rounds.leave(other.ours.fileno())
        return one.read()

    rounds.join(one.ours.fileno(), read_and_dismiss)
    join(rounds, other)
    one.theirs.send(b"x")
    other.theirs.send(b"x")
    await until_read(1)
    await asyncio.sleep(5 * TICK)
    assert other.came == []
    rounds.close()


async def test_frequent_wake_ups_become_one_a_tick(rounds: Rounds, streams: list[Stream]) -> None:
    busy = streams[:4]
    join(rounds, *busy)
    loop = asyncio.get_running_loop()
    looked_at = dict.fromkeys(busy, 0)
    until = loop.time() + 100 * TICK
    while loop.time() < until:
        for stream in busy:
            if len(stream.came) == looked_at[stream]:
                looked_at[stream] += 1
                stream.theirs.send(b"x")
                break
        await asyncio.sleep(0)
    assert len(global_order) < LOOKED_AT * 2 + len(busy) * 110
    rounds.close()


async def test_after_a_busy_time_a_single_stream_is_read_at_once_again(rounds: Rounds, streams: list[Stream]) -> None:
    join(rounds, *streams[:4])
    for _ in range(40):
        for stream in streams[:4]:
            stream.theirs.send(b"x")
        await asyncio.sleep(0)
    await until_read(160)
    await asyncio.sleep(3 * LOOKED_AT * TICK)
    one = streams[0]
    one.theirs.send(b"x")
    turns = 0
    while len(global_order) < 161:
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10
    rounds.close()


async def test_streams_that_never_rest_all_have_their_turn_and_so_has_the_loop(
    rounds: Rounds, streams: list[Stream]
) -> None:
    for stream in streams:
        stream.theirs.send(b"x" * 50)
    join(rounds, *streams)
    turns = 0
    async with asyncio.timeout(10):
        while len(global_order) < 50 * len(streams):
            await asyncio.sleep(0)
            turns += 1
            counts = [len(stream.came) for stream in streams]
            assert max(counts) - min(counts) <= 1 or len(global_order) == 50 * len(streams)
    assert turns >= 50 * len(streams) / 32
    rounds.close()


async def test_one_that_joins_after_all_have_left_is_read(rounds: Rounds, streams: list[Stream]) -> None:
    for stream in streams[:3]:
        join(rounds, stream)
        stream.theirs.send(b"x")
        await until_read(1)
        global_order.clear()
        rounds.leave(stream.ours.fileno())
    rounds.leave(streams[0].ours.fileno())
    rounds.close()
