"""`gateway/upstream/connection.py`: a socket that is left alone for some rounds although there is something to read."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.ticker import TICK
from gateway.upstream.answer import Answer
from gateway.upstream.connection import Connection
from gateway.upstream.rounds import MOST_RESTED, rounds_of

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Rounds:
    """Keeps who is to be read; the test does the rounds."""

    def __init__(self) -> None:
        self.by_ticks = True
        self.read: Callable[[], int] = int

    def join(self, _fd: int, read: Callable[[], int]) -> None:
        self.read = read

    def leave(self, _fd: int) -> None:
        self.read = int


class Transport:
    """As much of a transport as a connection asks for."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own

    def get_extra_info(self, _name: str) -> socket.socket:
        return self._own

    def write(self, _data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Stage:
    """A connection whose answer has begun, and the engine's end of it."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self.theirs = theirs
        self.rounds: Any = Rounds()
        owner: Any = None
        transport: Any = Transport(ours)
        self.connection = Connection(owner, self.rounds)
        self.connection.connection_made(transport)
        self.connection.ask([b"GET"], Answer(max_head=1000))
        self.theirs.send(HEAD)
        self.connection.read_now()


@pytest.fixture
def stage() -> Iterator[Stage]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Stage(ours, theirs)


def read_in_round(stage: Stage, number: int) -> bool:
    """Whether something that came is read in the round of that number, and not before."""
    stage.theirs.send(b"1\r\nx\r\n")
    return all(stage.rounds.read() == 0 for _ in range(number)) and stage.rounds.read() > 0


def test_a_socket_rests_for_as_long_as_more_is_wanted_each_time_that_something_is_there(stage: Stage) -> None:
    stage.connection.leave_unread(1, 2 * TICK)
    assert read_in_round(stage, 2)
    assert read_in_round(stage, 2)
    stage.connection.leave_unread(1, 0.0)
    assert read_in_round(stage, 0)


def test_what_is_read_for_another_reason_begins_a_new_rest(stage: Stage) -> None:
    stage.connection.leave_unread(1, 2 * TICK)
    assert stage.rounds.read() == 0
    assert stage.rounds.read() == 0
    stage.connection.read_now()
    assert read_in_round(stage, 2)


def test_nothing_rests_while_rounds_come_whenever_there_is_something_to_read(stage: Stage) -> None:
    stage.rounds.by_ticks = False
    stage.connection.leave_unread(1, 2 * TICK)
    assert read_in_round(stage, 0)


@pytest.mark.parametrize(
    ("rest", "rounds"), [(0.0, 0), (TICK / 3, 0), (TICK, 1), (MOST_RESTED * TICK, MOST_RESTED), (4 * TICK, 0), (1.0, 0)]
)
def test_an_end_is_not_held_back_for_longer_than_some_rounds(rest: float, rounds: int) -> None:
    assert rounds_of(rest) == rounds
