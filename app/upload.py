"""Reads an upload (multipart/form-data, RFC 7578) as it comes: the file goes to the disk, never whole into memory.

Fields may come before or after the file. Writes are gathered to pieces of `PIECE` bytes and made in a thread, so that
a slow disk holds up this client alone.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

PIECE = 1024 * 1024
MAX_FIELD = 64 * 1024
"""Bytes of all fields but the file, together."""


MAX_FORM = 2 * MAX_FIELD
"""Bytes of a form around its file: fields, boundaries, headers of parts."""


class Sink(Protocol):
    """Where the file goes."""

    def write(self, data: bytes) -> None:
        """Appends; may block."""


@dataclass(slots=True)
class Form:
    """What was sent beside the file's bytes. `filename` is None where there was no file."""

    fields: dict[str, str] = field(default_factory=dict)
    filename: str | None = None


async def read_form(content_type: str, body: AsyncIterator[bytes], sink: Sink) -> Form:
    """Reads a whole form; the bytes of its part `file` go to the sink.

    Raises:
        InvalidRequest: not a form, or one that breaks off.
        OSError: of the sink.
    """
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise InvalidRequest("The body must be sent as multipart/form-data.")
    reader = _Reader()
    try:
        parser = MultipartParser(options[b"boundary"], reader.callbacks())
        async for piece in body:
            parser.write(piece)
            if len(reader.pending) >= PIECE:
                await asyncio.to_thread(sink.write, reader.take())
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequest("The body is not valid multipart/form-data.") from error
    if not reader.ended:
        raise InvalidRequest("The form breaks off before its end.")
    await asyncio.to_thread(sink.write, reader.take())
    return reader.form


class _Reader:
    """The callbacks of the parser: one part at a time."""

    def __init__(self) -> None:
        self.form = Form()
        self.pending = bytearray()
        self.ended = False
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._name = ""
        self._is_file = False
        self._text = bytearray()
        self._texts = 0

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._part_begins,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header_ends,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._part_ends,
            "on_end": self._ends,
        }

    def take(self) -> bytes:
        """The file's bytes that have come since the last time."""
        data = bytes(self.pending)
        self.pending.clear()
        return data

    def _part_begins(self) -> None:
        self._disposition = b""
        self._text.clear()

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        filename = options.get(b"filename")
        self._is_file = self._name == "file"
        if self._is_file and self.form.filename is not None:
            raise InvalidRequest("The form holds more than one file.", param="file")
        if self._is_file:
            self.form.filename = filename.decode("utf-8", "replace") if filename else "file"

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.pending += data[start:end]
            return
        self._texts += end - start
        if self._texts > MAX_FIELD:
            raise InvalidRequest(f"The form's fields are larger than {MAX_FIELD} bytes.")
        self._text += data[start:end]

    def _part_ends(self) -> None:
        if not self._is_file:
            self.form.fields[self._name] = self._text.decode("utf-8", "replace")

    def _ends(self) -> None:
        self.ended = True
