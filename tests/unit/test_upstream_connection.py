"""`gateway/upstream/connection.py`: what real sockets cannot be made to do at will."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from gateway.upstream.answer import Answer
from gateway.upstream.connection import Connection
from gateway.upstream.exchange import HELD


class RecordingTransport(asyncio.Transport):
    """A transport that writes nowhere and counts."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self.calls: list[str] = []

    def abort(self) -> None:
        self.calls.append("abort")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append("write")

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


class RecordingOwner:
    """An owner that writes down what it was told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def shelve(self, _connection: Connection) -> None:
        self.calls.append("shelve")

    def discard(self, _connection: Connection) -> None:
        self.calls.append("discard")

    def lost(self, _connection: Connection) -> None:
        self.calls.append("lost")


@pytest.fixture
def transport() -> Iterator[RecordingTransport]:
    with socket.socket() as sock:
        yield RecordingTransport(sock)


def arrives(connection: Connection, data: bytes) -> None:
    """The event loop reads so many bytes into what the connection gives it."""
    while data:
        room = connection.get_buffer(-1)
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        connection.buffer_updated(len(piece))


def test_a_connection_given_up_while_it_was_made_is_closed_as_soon_as_it_is_there(
    transport: RecordingTransport,
) -> None:
    """Case H1: an event loop that hands it over late must not leave it open."""
    connection = Connection(RecordingOwner())
    connection.abort()
    connection.connection_made(transport)
    assert transport.calls == ["abort"]


def test_an_exchange_that_was_closed_does_not_touch_the_next_one(transport: RecordingTransport) -> None:
    owner = RecordingOwner()
    connection = Connection(owner)
    connection.connection_made(transport)
    first = connection.ask([b"x"], Answer(max_head=1000))
    arrives(connection, b"HTTP/1.1 204 No\r\n\r\n")
    first.close()
    connection.ask([b"x"], Answer(max_head=1000))
    first.pause()
    first.resume()
    first.close()
    assert owner.calls == ["shelve"]
    assert transport.calls == ["write", "write"]


def test_a_paused_connection_is_read_again_when_it_is_given_back(transport: RecordingTransport) -> None:
    connection = Connection(RecordingOwner())
    connection.connection_made(transport)
    exchange = connection.ask([b"x"], Answer(max_head=1000))
    arrives(connection, b"HTTP/1.1 204 No\r\n\r\n")
    exchange.pause()
    exchange.close()
    assert transport.calls == ["write", "pause", "resume"]


def test_what_waits_for_a_sink_is_bounded(transport: RecordingTransport) -> None:
    connection = Connection(RecordingOwner())
    connection.connection_made(transport)
    connection.ask([b"x"], Answer(max_head=1000))
    arrives(connection, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * HELD)
    assert transport.calls == ["write"]
    arrives(connection, b"x")
    assert transport.calls == ["write", "pause"]
