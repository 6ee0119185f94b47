"""How large a request may be, its head and its body, and that a body is not compressed. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from starlette.types import Message, Receive, Scope

from gateway.errors import BodyTooLarge, HeadTooLarge, UnsupportedEncoding


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is too large.

    Attributes:
        head: bytes of the request's line and headers together (RFC 6585, 5).
        header: bytes of one header, name and value.
        body: bytes.
        larger: paths whose body may have another number of bytes.
    """

    head: int
    header: int
    body: int
    larger: Mapping[str, int] = field(default_factory=dict)

    def check_head(self, scope: Scope) -> None:
        """Raises HeadTooLarge."""
        fields = scope["headers"]
        size = sum(map(len, chain.from_iterable(fields)))
        if size > self.header and any(len(name) + len(value) > self.header for name, value in fields):
            raise HeadTooLarge(f"A header of the request is larger than the limit of {self.header} bytes.")
        if size + len(scope["raw_path"]) + len(scope["query_string"]) > self.head:
            raise HeadTooLarge(f"The request's line and headers are larger than the limit of {self.head} bytes.")

    def on_body(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> Receive:
        """A `receive` that raises BodyTooLarge where the body is.

        Raises:
            UnsupportedEncoding: it is compressed.
            BodyTooLarge: it says so before it comes. The server reads on and drops what comes: closing with bytes
                unread would reset the answer away.
        """
        encoding = headers.get("content-encoding")
        if encoding is not None and encoding.strip().lower() != "identity":
            raise UnsupportedEncoding("Compressed request bodies are not supported; send it without Content-Encoding.")
        limit = self.larger.get(scope["path"], self.body)
        length = headers.get("content-length", "")
        if not length.isdecimal() or "transfer-encoding" in headers:
            return _counting(receive, limit)
        if int(length) > limit:
            raise _too_large(limit)
        return receive  # the server hands over no more than the length that it was told


def _counting(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
        return message

    return counted


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than the limit of {limit} bytes.")
