"""One connection to an engine: a socket that carries one exchange at a time.

Bytes that nobody asked for close it, and so does the engine; an open one is asked the kernel before it is used again,
since the event loop may not have come round yet to tell of a close. While its bytes may wait it is read in rounds with
other connections, else by the event loop.
"""

import asyncio
import os
import select
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from gateway.upstream.answer import Answer
from gateway.upstream.exchange import Exchange
from gateway.upstream.rounds import Rounds, rounds_of


class Owner(Protocol):
    """Who keeps the connections. Plain calls."""

    def shelve(self, connection: "Connection") -> None:
        """An exchange is complete and the connection can carry another one."""

    def discard(self, connection: "Connection") -> None:
        """The connection cannot be used again and is to be aborted."""

    def lost(self, connection: "Connection") -> None:
        """The socket is closed."""


READ = 16 * 1024
"""Bytes of one read: so much of one stream is worked on before it is the others' turn."""

_BUFFER = memoryview(bytearray(READ))
"""Of all connections: what is read to it is copied in the same call."""


class Connection(asyncio.BufferedProtocol):
    """A socket and the exchange on it. Implements `Carrier`."""

    def __init__(self, owner: Owner, rounds: Rounds | None = None) -> None:
        """`rounds`: who reads while bytes may wait; None: the event loop then too."""
        self._owner = owner
        self._rounds = rounds
        self._transport: asyncio.Transport | None = None
        self._readable = select.poll()
        self._exchange: Exchange | None = None
        self._fd = -1
        self._open = True
        self._paused = False
        self._asked = False
        self._unread = 0
        self._in_rounds = False
        self._rest = self._rested = 0  # rounds: that it may be left alone, and that it was

    def ask(self, request: Sequence[bytes], answer: Answer) -> Exchange:
        """Write a request; its answer will be read into the exchange. The connection must be idle."""
        assert self._transport is not None  # noqa: S101 - the pool hands out connected ones only
        self._exchange = exchange = Exchange(self, answer, reused=self._asked)
        self._asked = True
        for piece in request:
            self._transport.write(piece)
        return exchange

    def is_usable(self) -> bool:
        """Whether another request can be sent: open, with nothing to be read, be it bytes or the end."""
        return self._open and not self._readable.poll(0)

    def abort(self) -> None:
        """Close the socket without waiting for anything; also one that is not connected yet. Idempotent."""
        self._gone(ConnectionAbortedError("closed on this side"))
        if self._transport is not None:
            self._transport.abort()

    # Called by the exchange.

    def pause_reading(self) -> None:
        """See `Carrier.pause_reading`."""
        if self._open and not self._paused and self._transport is not None:
            self._paused = True
            if self._rounds is not None and self._in_rounds:
                self._rounds.leave(self._fd)
            else:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See `Carrier.resume_reading`."""
        if self._open and self._paused and self._transport is not None:
            self._paused = False
            if self._rounds is not None and self._in_rounds:
                self._rounds.join(self._fd, self._read_in_round)
            else:
                self._transport.resume_reading()

    def leave_unread(self, size: int, rest: float = 0.0) -> None:
        """See `Carrier.leave_unread`. The kernel tells when so much is there, or the end (SO_RCVLOWAT)."""
        self._rest = rounds_of(rest)
        if size != self._unread and self._open and self._transport is not None:
            if max(size, 1) != max(self._unread, 1):
                option = (socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(size, 1))
                self._transport.get_extra_info("socket").setsockopt(*option)
            self._unread = size
            self._read_in_rounds(size > 0)

    def read_now(self) -> int:
        """See `Carrier.read_now`. The end is left to the loop, an error is not: it is told once."""
        self._rested = 0
        if not self._open or self._paused or self._exchange is None:
            return 0
        try:
            data = os.read(self._fd, READ)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._gone(error)
            self.abort()
            return 0
        if data:
            self._exchange.received(data)
        else:
            self._read_in_rounds(False)
        return len(data)

    def _read_in_round(self) -> int:
        """Reads, unless more is wanted with what is there."""
        if self._rested < self._rest and self._rounds is not None and self._rounds.by_ticks:
            self._rested += 1
            return 0
        return self.read_now()

    def _read_in_rounds(self, yes: bool) -> None:
        """Who reads: `Rounds`, or the event loop."""
        if yes == self._in_rounds or self._rounds is None:
            return
        paused = self._paused
        self.pause_reading()
        self._in_rounds = yes
        if not paused:
            self.resume_reading()

    def release(self, *, reusable: bool) -> None:
        """See `Carrier.release`. An answer to a request that was not written to its end spoils the connection."""
        self._exchange = None
        if reusable and self._open and self._transport is not None and not self._transport.get_write_buffer_size():
            self.leave_unread(0)
            self.resume_reading()
            self._owner.shelve(self)
        else:
            self._owner.discard(self)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection that was given up while it was made is closed at once."""
        self._transport = cast("asyncio.Transport", transport)
        self._fd = transport.get_extra_info("socket").fileno()
        self._readable.register(self._fd, select.POLLIN)
        if not self._open:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes are read to."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of the answer, or bytes that nobody asked for."""
        if self._exchange is not None:
            self._exchange.received(bytes(_BUFFER[:nbytes]))
        else:
            self._owner.discard(self)

    def eof_received(self) -> None:
        """The engine closed its side; the transport closes the other."""
        self._gone(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._gone(exc)
        self._owner.lost(self)

    def _gone(self, cause: Exception | None) -> None:
        if self._open:
            if self._rounds is not None and self._in_rounds and not self._paused:
                self._rounds.leave(self._fd)
            self._open = False
            if self._exchange is not None:
                self._exchange.cut(cause)
