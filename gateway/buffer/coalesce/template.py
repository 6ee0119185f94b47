"""Chunks that differ in their text only: recognised by their first and last bytes, without reading their JSON.

Engines write every chunk of a stream with the same serialiser, so that those of one kind begin and end with the same
bytes. The cut is proved once, with a JSON parser: whatever JSON string stands between head and tail, the chunk says the
same but for that text. What stands there in a later chunk is shown to be one JSON string by the same parser, which also
refuses what could not be put together again: half an escape, half a character, a lone surrogate.
"""

import re
from collections.abc import Mapping
from typing import Final

import orjson

from gateway.buffer.coalesce.pieces import Piece

_PATTERNS: Mapping[str, re.Pattern[bytes]] = {
    name: re.compile(rb'"%b"\s*:\s*"((?:[^"\\]|\\.)*)"' % name.encode())
    for name in ("content", "reasoning", "reasoning_content", "text", "arguments")
}


class Template:
    """A head and a tail, and the key and choice of the pieces that have them.

    A piece has more than `least` bytes, and its text is from `begin` to `end` of them. Of whole events, one after the
    other, `first` is before the first text, `between` between two, `last` after the last one: the texts and what is
    between them are from `before` to `after`.
    """

    __slots__ = (
        "after",
        "before",
        "begin",
        "between",
        "choice",
        "end",
        "first",
        "head",
        "key",
        "last",
        "least",
        "tail",
    )

    def __init__(self, head: bytes, tail: bytes, piece: Piece) -> None:
        self.head: Final = head
        self.tail: Final = tail
        self.least: Final = len(head) + len(tail)
        self.begin: Final = len(head)
        self.end: Final = -len(tail)
        self.first: Final = b"data: " + head
        self.last: Final = tail + b"\n\n"
        self.between: Final = self.last + self.first
        self.before: Final = len(self.first)
        self.after: Final = -len(self.last)
        self.key: Final = piece.key
        self.choice: Final = piece.choice

    def pieces(self, events: bytes) -> list[bytes] | None:
        """The texts of whole events as JSON has them, if all have this template and none is empty or has an escape.

        Side by side they are the text of one event, and so are some of them.
        """
        if not (events.startswith(self.first) and events.endswith(self.last)):
            return None
        pieces = events[self.before : self.after].split(self.between)
        listed = b'","'.join(pieces)
        if b"\\" in listed or listed.count(b'"') != 2 * len(pieces) - 2 or b"" in pieces:  # each string is one piece
            return None
        try:
            orjson.loads(b'["' + listed + b'"]')
        except orjson.JSONDecodeError:
            return None
        return pieces

    def event(self, pieces: list[bytes]) -> bytes:
        """Such texts as one whole event."""
        return self.first + b"".join(pieces) + self.last

    def filled(self, text: str) -> bytes:
        """The chunk with this text."""
        return self.head + orjson.dumps(text)[1:-1] + self.tail


def learn(data: bytes, piece: Piece) -> Template | None:
    """The template of a plain piece, proved; None if its text is not found."""
    text = piece.text
    if b"\n" in data:  # an event of several lines: it is not written as it was read
        return None
    probe = text + "?"
    piece.holder[piece.name] = probe
    wanted = orjson.dumps(piece.body)
    piece.holder[piece.name] = text
    for found in _PATTERNS[piece.name].finditer(data):
        template = Template(data[: found.start(1)], data[found.end(1) :], piece)
        try:
            proof = orjson.loads(template.filled(probe))
        except orjson.JSONDecodeError:
            continue
        if orjson.dumps(proof) == wanted:
            return template
    return None


MOST = 16
"""Templates that are kept for a stream: choices times kinds, usually one or two."""


class Templates:
    """Those of one stream.

    Attributes:
        latest: the one that recognised something last, or was learned last; None while there is none.
    """

    __slots__ = ("_all", "latest")

    def __init__(self) -> None:
        self.latest: Template | None = None
        self._all: list[Template] = []  # the latest is the first

    def __len__(self) -> int:
        return len(self._all)

    def find(self, data: bytes) -> tuple[Template, str] | None:
        """The template of a chunk, and its text; None if it is not known or has to be read another way."""
        for template in self._all:
            if data.startswith(template.head) and data.endswith(template.tail) and len(data) > template.least:
                break
        else:
            return None
        try:
            text = orjson.loads(b'"' + data[template.begin : template.end] + b'"')
        except orjson.JSONDecodeError:
            return None
        if template is not self.latest:
            self._all.remove(template)
            self._put_first(template)
        return template, text

    def learn(self, data: bytes, piece: Piece) -> None:
        """Keeps the template of a plain piece, if it has one."""
        template = learn(data, piece)
        if template is not None:
            del self._all[MOST - 1 :]
            self._put_first(template)

    def _put_first(self, template: Template) -> None:
        self._all.insert(0, template)
        self.latest = template
