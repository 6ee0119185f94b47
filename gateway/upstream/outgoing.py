"""The request that leaves for an engine.

Framing and negotiation belong to this end: Host, Content-Length, Accept and Accept-Encoding are always ours, and a
header of the caller that would change them, or that is meant for one hop only, is left out (RFC 9110, 7.6.1).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import httpx

from gateway.errors import InvalidRequest

OURS = frozenset(
    b"host content-length accept accept-encoding"
    b" connection keep-alive proxy-connection proxy-authenticate proxy-authorization"
    b" te trailer transfer-encoding upgrade expect".split()
)
"""Headers that nobody else sets, in lower case."""

_ACCEPT = [(b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


class Target(NamedTuple):
    """Where requests to one URL go.

    Attributes:
        url: as httpx reads it.
        origin: `scheme://host:port`.
        plain: without TLS.
        head: what every request to it has after its method, as it is written.
    """

    url: httpx.URL
    origin: str
    plain: bool
    head: bytes


@lru_cache(maxsize=256)
def target_of(url: str) -> Target:
    """URLs of engines are few, and parsing one costs as much as the rest of a request.

    Raises:
        httpx.InvalidURL: the URL cannot be read.
        httpx.UnsupportedProtocol: neither http nor https.
    """
    read = httpx.URL(url)
    if read.scheme not in {"http", "https"}:
        raise httpx.UnsupportedProtocol("neither http nor https")
    head = b" %b HTTP/1.1\r\nHost: %b\r\n" % (read.raw_path, read.netloc)
    head += b"".join(b"%b: %b\r\n" % field for field in _ACCEPT)
    return Target(read, origin_of(read), read.scheme == "http", head)


def origin_of(url: httpx.URL) -> str:
    """`scheme://host:port`, the key of an engine's connections."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def fields_of(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """The headers that are handed on.

    Raises:
        InvalidRequest: a header's name is not a token, or its value has a control character (CR and LF above all)
            or one outside Latin-1 (RFC 9110, 5.5).
    """
    fields = [_field(name, value) for name, value in headers]
    return [field for field in fields if field[0].lower() not in OURS]


def written(method: str, target: Target, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> list[bytes]:
    """The bytes of a request, in one piece if it is small: one segment, one system call."""
    lines = [method.encode("ascii"), target.head, *(b"%b: %b\r\n" % field for field in fields)]
    lines.append(b"Content-Length: %d\r\n\r\n" % len(body) if body or method != "GET" else b"\r\n")
    if len(body) > _SMALL:
        return [b"".join(lines), body]
    lines.append(body)
    return [b"".join(lines)]


def request_of(method: str, target: Target, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> httpx.Request:
    """The same as httpx has it, for its own machinery."""
    return httpx.Request(method, target.url, headers=[*_ACCEPT, *fields], content=body)


def _field(name: str, value: str) -> tuple[bytes, bytes]:
    try:
        field = name.encode("ascii"), value.encode("latin-1")
    except UnicodeEncodeError as e:
        raise InvalidRequest("a header that is to be forwarded has characters that HTTP does not allow") from e
    if not _TOKEN.fullmatch(field[0]) or not _VALUE.fullmatch(field[1]):
        raise InvalidRequest("a header that is to be forwarded has characters that HTTP does not allow")
    return field


_SMALL = 64 * 1024
"""Bodies up to this size are copied behind their head."""
