"""Heads of answers, with the header lines of uvicorn under vLLM in their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus

import orjson

STREAM_TYPE = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """A whole answer."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = "application/json"
    headers: Sequence[tuple[str, str]] = ()


def json_page(value: object, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Page:
    """A page of compact JSON."""
    return Page(status, orjson.dumps(value), headers=headers)


def page_head(page: Page, now: float, *, close: bool) -> bytes:
    """The head of a page; `now` is seconds of the epoch, `close` announces the end of the connection."""
    lines = [*page.headers, ("content-length", str(len(page.body)))]
    if page.content_type is not None:
        lines.append(("content-type", page.content_type))
    return _head(page.status, lines, now, close=close)


def stream_head(now: float, *, close: bool) -> bytes:
    """The head of an event stream."""
    return _head(200, [("content-type", STREAM_TYPE)], now, close=close, tail=[("transfer-encoding", "chunked")])


def _head(
    status: int, lines: Sequence[tuple[str, str]], now: float, *, close: bool, tail: Sequence[tuple[str, str]] = ()
) -> bytes:
    ending = [("connection", "close")] if close else []
    every = [("date", formatdate(now, usegmt=True)), ("server", "uvicorn"), *lines, ("vary", "Origin"), *ending, *tail]
    text = "".join(f"{name}: {value}\r\n" for name, value in every)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{text}\r\n".encode("latin-1")


def with_header(head: bytes, name: str, value: str) -> bytes:
    """A head with one more line at its end."""
    return head[:-2] + f"{name}: {value}\r\n\r\n".encode("latin-1")


def without_header(head: bytes, name: str) -> bytes:
    """A head without the lines of that name."""
    prefix = f"{name}:".encode()
    return b"\r\n".join(line for line in head.split(b"\r\n") if not line.startswith(prefix))


def framed(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)
