"""Server-sent events: bytes to events for any cut, and events to bytes.

The format is WHATWG HTML, 9.2.6 "Interpreting an event stream", with three deviations that serve a gateway:

- data stays bytes: it is neither decoded nor repaired (a line ends at CR, LF or CRLF and at nothing else);
- `id` and `retry` are dropped, since they would speak to the client of a connection that is not its own;
- the end of input delivers a last event that lacks its blank line; whether that is whole is the reader's to judge.

Each byte is scanned a constant number of times, whatever the size of the pieces it comes in.
"""

from typing import NamedTuple

from gateway.errors import EngineBroke

COMMENT_PING = b": ping\n\n"
"""What keeps an idle stream open: a comment, which no client may take for an event."""

_BOM = b"\xef\xbb\xbf"
_TOO_LARGE = "the engine sent an event that is too large"


class Event(NamedTuple):
    """One event: its data lines joined by LF, and its `event:` name, empty where there is none."""

    data: bytes
    name: bytes = b""


def encode(data: bytes, name: bytes = b"") -> bytes:
    """The event as bytes, with LF line ends only."""
    head = b"event: " + name + b"\n" if name else b""
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    return head + b"data: " + data + b"\n\n"


class SseDecoder:
    """Bytes to events. Line ends are normalised first; then an event ends at the first empty line.

    Args:
        max_event: bytes that one event, and so one line, may have. Not more than that is ever kept.
    """

    __slots__ = ("_after_cr", "_broken", "_idle", "_kept", "_max", "_start")

    def __init__(self, max_event: int = 16 * 2**20) -> None:
        self._max = max_event
        self._kept = bytearray()  # an event without its end
        self._start: bytes | None = b""  # the first bytes, until it is known whether they are a byte order mark
        self._after_cr = False  # the last byte was a CR: an LF that follows belongs to it
        self._broken = False
        self._idle = True  # between two events, and nothing is unsettled but whether there is a byte order mark

    @property
    def broken(self) -> bool:
        """Whether an event was too large: nothing more will come."""
        return self._broken

    def is_before(self, data: bytes) -> bool:
        """Whether `data` begins with a new event, or the byte order mark before the first, and is not too large."""
        return self._idle and len(data) <= self._max

    def plain(self, data: bytes) -> list[bytes] | None:
        """The data of each event if `data` is made of whole, unnamed, LF-ended events of one line; None if it is not.

        The quick way for what engines usually send. Nothing is consumed on None: `feed` has to be called then.
        """
        if not self._idle or not data.endswith(b"\n\n") or b"\r" in data or len(data) > self._max:
            return None
        blocks = data[:-2].split(b"\n\n")
        for block in blocks:
            if not block.startswith(b"data: ") or b"\n" in block or len(block) == 6:
                return None
        self._start = None
        return [block[6:] for block in blocks]

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes.

        Raises:
            EngineBroke: an event is larger than allowed. Events before it are returned first, and the next call raises.
        """
        if self._broken:
            raise EngineBroke(_TOO_LARGE)
        if self._start is not None:
            data = self._without_mark(data)
        data = self._with_lf(data)
        events: list[Event] = []
        self._split(data, events)
        self._idle = not (self._kept or self._after_cr or self._broken) and self._start is None
        if self.broken and not events:
            raise EngineBroke(_TOO_LARGE)
        return events

    def close(self) -> list[Event]:
        """The end of input: a last event that lacks its blank line, if there is one.

        Raises:
            EngineBroke: an event was larger than allowed, and no call of `feed` has said so yet.
        """
        if self._broken:
            raise EngineBroke(_TOO_LARGE)
        event = self._block(b"")
        return [event] if event else []

    def _without_mark(self, data: bytes) -> bytes:
        start = (self._start or b"") + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _with_lf(self, data: bytes) -> bytes:
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _split(self, data: bytes, events: list[Event]) -> None:
        """Cuts LF-ended `data` at empty lines, the first of which may be half in what is kept."""
        if self._kept.endswith(b"\n") and data.startswith(b"\n"):
            blocks = [b"", *data[1:].split(b"\n\n")]
        else:
            blocks = data.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            event = self._block(block)
            if self.broken:
                return
            if event:
                events.append(event)
        if self._fits(rest):
            self._kept += rest

    def _block(self, block: bytes) -> Event | None:
        """The event that ends with `block`."""
        if not self._fits(block):
            return None
        if self._kept:
            block = bytes(self._kept + block)
            self._kept.clear()
        return _parse(block)

    def _fits(self, piece: bytes) -> bool:
        if len(self._kept) + len(piece) > self._max:
            self._kept.clear()
            self._broken = True
        return not self._broken


def _parse(block: bytes) -> Event | None:
    """The event that the lines of a block say; None if they have no data."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return Event(block[6:]) if len(block) > 6 else None
    lines: list[bytes] = []
    name = b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    data = b"\n".join(lines)
    return Event(data, name) if data else None
