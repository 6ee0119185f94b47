"""A connection of the client, without a socket."""

import asyncio
import time

from app.bench.connection import Connection, Patience
from app.bench.reading import Reading


class Wire(asyncio.Transport):
    """Keeps what is written and whether it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True


def connected() -> tuple[Connection, Wire]:
    connection, wire = Connection(Patience()), Wire()
    connection.connection_made(wire)
    return connection, wire


async def test_a_connection_that_was_closed_before_it_was_used_does_not_wait() -> None:
    connection, wire = connected()
    connection.connection_lost(None)
    reading = Reading(0)
    await asyncio.wait_for(connection.ask(b"request", reading), 5)
    assert (reading.stale, wire.written, connection.open) == (True, b"", False)


async def test_bytes_that_nobody_asked_for_close_it() -> None:
    connection, wire = connected()
    connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert (connection.open, wire.aborted) == (False, True)


async def test_a_request_that_is_given_up_closes_it() -> None:
    connection, wire = connected()
    asking = asyncio.create_task(connection.ask(b"request", Reading(time.perf_counter())))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (wire.written, wire.aborted, connection.open) == (b"request", True, False)
