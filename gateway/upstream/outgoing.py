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
_NOT_ALLOWED = "a header that is to be forwarded has characters that HTTP does not allow"
_is_token = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_is_value = re.compile(rb"[\t\x20-\x7e\x80-\xff]*").fullmatch


class Target(NamedTuple):
    """Where requests to one URL go.

    Attributes:
        url: as httpx reads it.
        origin: `scheme://host:port`.
        plain: without TLS.
        head: what every request to it has after its method, as it is written but for the end of the last line.
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
    head = b"\r\n".join([b" %b HTTP/1.1\r\nHost: %b" % (read.raw_path, read.netloc), *map(b": ".join, _ACCEPT)])
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
    fields = []
    for name, value in headers:
        try:
            field = name.encode("ascii"), value.encode("latin-1")
        except UnicodeEncodeError as e:
            raise InvalidRequest(_NOT_ALLOWED) from e
        if not _is_token(field[0]) or not _is_value(field[1]):
            raise InvalidRequest(_NOT_ALLOWED)
        if field[0].lower() not in OURS:
            fields.append(field)
    return fields


def written(method: str, target: Target, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> list[bytes]:
    """The bytes of a request, in one piece if it is small: one segment, one system call."""
    if body or method != "GET":
        fields = [*fields, (b"Content-Length", b"%d" % len(body))]
    head = b"\r\n".join([method.encode("ascii") + target.head, *map(b": ".join, fields), b"\r\n"])
    return [head, body] if len(body) > _SMALL else [head + body]


def request_of(method: str, target: Target, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> httpx.Request:
    """The same as httpx has it, for its own machinery."""
    return httpx.Request(method, target.url, headers=[*_ACCEPT, *fields], content=body)


_SMALL = 64 * 1024
"""Bodies up to this size are copied behind their head."""
