"""The request that leaves for an engine.

Framing and negotiation belong to this end: Host, Content-Length, Accept and Accept-Encoding are always ours, and a
header of the caller that would change them, or that is meant for one hop only, is left out (RFC 9110, 7.6.1).
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import httpx

from gateway.errors import InvalidRequest

_OURS = frozenset(
    b"host content-length accept accept-encoding"
    b" connection keep-alive proxy-connection proxy-authenticate proxy-authorization"
    b" te trailer transfer-encoding upgrade expect".split()
)
_ACCEPT = [(b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

parse_url = lru_cache(maxsize=256)(httpx.URL)
"""URLs of engines are few and parsing one costs as much as the rest of a request."""


def outgoing(method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> httpx.Request:
    """The request as it will be written.

    Raises:
        InvalidRequest: a header's name is not a token, or its value has a control character (CR and LF above all)
            or one outside Latin-1 (RFC 9110, 5.5).
        httpx.InvalidURL: the URL cannot be read.
    """
    fields = [*_ACCEPT]
    for name, value in headers:
        field = _field(name, value)
        if field[0].lower() not in _OURS:
            fields.append(field)
    return httpx.Request(method, parse_url(url), headers=fields, content=body)


def _field(name: str, value: str) -> tuple[bytes, bytes]:
    try:
        field = name.encode("ascii"), value.encode("latin-1")
    except UnicodeEncodeError as e:
        raise InvalidRequest("a header that is to be forwarded has characters that HTTP does not allow") from e
    if not _TOKEN.fullmatch(field[0]) or not _VALUE.fullmatch(field[1]):
        raise InvalidRequest("a header that is to be forwarded has characters that HTTP does not allow")
    return field


def serialized(request: httpx.Request, body: bytes) -> list[bytes]:
    """The bytes of a request, in one piece if it is small: one segment, one system call."""
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b\r\n" % field for field in request.headers.raw]
    lines.append(b"\r\n")
    if len(body) > _SMALL:
        return [b"".join(lines), body]
    lines.append(body)
    return [b"".join(lines)]


_SMALL = 64 * 1024
"""Bodies up to this size are copied behind their head."""
