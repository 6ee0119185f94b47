"""Sockets that are read in rounds: one alarm for all of them."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

from benchmarks.micro.flow import Clock, Timers
from gateway.ticker import Ticker
from gateway.upstream.rounds import LOOKED_AT, Rounds

STREAMS = 32
SIZE = 400
"""Bytes that are said to be read of each: fewer in all than end a turn."""


class Crowd:
    """Streams that all have something to read in each round. `reads` counts how often they were asked to."""

    def __init__(self, timers: Timers, rounds: Rounds) -> None:
        self.reads = 0
        self._timers = timers
        self._rounds = rounds

    def join(self, fd: int) -> None:
        self._rounds.join(fd, self._read)

    def step(self) -> None:
        """The alarm rings: all are found and read."""
        self._timers.pass_on()

    def _read(self) -> int:
        self.reads += 1
        return SIZE


@contextmanager
def crowd() -> Iterator[Crowd]:
    """A crowd for as long as the block lasts."""
    clock = Clock()
    timers = Timers(clock)
    with ExitStack() as stack:
        stack.callback(clock.close)
        made = clock.run_until_complete(_gathered(timers, stack))
        yield made


async def _gathered(timers: Timers, stack: ExitStack) -> Crowd:
    """A crowd that is read by ticks: it woke the process often enough."""
    rounds = Rounds(Ticker(cast("asyncio.AbstractEventLoop", timers)))
    stack.callback(rounds.close)
    made = Crowd(timers, rounds)
    for _ in range(STREAMS):
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        stack.enter_context(theirs).send(b"x")
        made.join(ours.fileno())
    while timers.ring is None:  # noqa: ASYNC110 - the event loop's own turns are what is waited for
        await asyncio.sleep(0)
    assert made.reads >= STREAMS * LOOKED_AT
    return made
