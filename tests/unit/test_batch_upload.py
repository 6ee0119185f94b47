"""Uploads: the form is read as it comes, and the file goes on before it is whole."""

from collections.abc import AsyncIterator

import pytest

from app.upload import MAX_FIELD, PIECE, Form, read_form
from gateway.errors import InvalidRequest

BOUNDARY = "xYz"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"


class Sink:
    """Keeps the pieces as they came."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    @property
    def whole(self) -> bytes:
        return b"".join(self.pieces)


def part(name: str, data: bytes, filename: str | None = None) -> bytes:
    named = f'; filename="{filename}"' if filename is not None else ""
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


async def read(body: bytes, sink: Sink, cut: int = 7, content_type: str = TYPE) -> Form:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), cut):
            yield body[start : start + cut]

    return await read_form(content_type, pieces(), sink)


@pytest.mark.parametrize("first", ["purpose", "file"])
async def test_fields_and_the_file_come_in_any_order(first: str) -> None:
    parts = {"purpose": part("purpose", b"batch"), "file": part("file", b"a\r\nb", "\u00e4.jsonl")}
    last = "file" if first == "purpose" else "purpose"
    sink = Sink()
    form = await read(parts[first] + parts[last] + END, sink)
    assert (form.fields, form.filename, sink.whole) == ({"purpose": "batch"}, "\u00e4.jsonl", b"a\r\nb")


async def test_a_large_file_goes_on_in_pieces() -> None:
    sink, data = Sink(), b"x" * (5 * PIECE + 17)
    await read(part("file", data, "a") + END, sink, cut=65536)
    assert sink.whole == data
    assert max(map(len, sink.pieces)) < 2 * PIECE


async def test_a_form_without_a_file_says_so() -> None:
    assert (await read(part("purpose", b"batch") + END, Sink())).filename is None


@pytest.mark.parametrize(
    ("body", "content_type"),
    {
        "not a form": (b"{}", "application/json"),
        "no content type": (b"", ""),
        "no boundary": (b"", "multipart/form-data"),
        "broken off in the file": (part("file", b"abc", "a")[:-3], TYPE),
        "broken off before the end": (part("file", b"abc", "a"), TYPE),
        "nonsense": (b"hello world, this is no form", TYPE),
        "two files": (part("file", b"a", "a") + part("file", b"b", "b") + END, TYPE),
        "a field without end": (part("purpose", b"x" * (MAX_FIELD + 1)) + END, TYPE),
    }.values(),
)
async def test_a_bad_form_is_the_clients_mistake(body: bytes, content_type: str) -> None:
    with pytest.raises(InvalidRequest):
        await read(body, Sink(), content_type=content_type)
