"""Pure ASGI middleware: the request's id, limits of its head and body, one access line a request.

None of them wraps a message of a stream's body: they look at the start of a response and then step aside. Where one has
nothing to do when the request is over, it hands on what is to be awaited, and no coroutine of its own stays behind.
"""

import os
import re
import time
from collections.abc import Awaitable, Mapping
from typing import cast

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.answers import ErrorResponse
from gateway.errors import BodyTooLarge, HeadTooLarge, UnsupportedEncoding

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
log = structlog.get_logger("tokenlane.access")


class RequestId:
    """Gives each request an id: the client's `X-Request-Id` if it is sane, else a new one. It goes out as a header."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Passes the request on with `scope["state"]["request_id"]` set."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        sent = headers_in(scope).get("x-request-id", "")
        request_id = sent if _SANE_ID.fullmatch(sent) else os.urandom(16).hex()
        scope["state"]["request_id"] = request_id
        field = (b"x-request-id", request_id.encode())

        def with_id(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], field]
            return send(message)

        return self._app(scope, receive, with_id)


class HeadLimit:
    """Refuses a request whose line and headers, or one header, are too large (RFC 6585, 5).

    Args:
        app: what comes next.
        head: bytes of all together.
        header: bytes of one, name and value.
    """

    def __init__(self, app: ASGIApp, head: int, header: int) -> None:
        self._app = app
        self._head = head
        self._header = header

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Passes the request on if its head is small enough."""
        if scope["type"] == "http" and (message := self._too_large(scope)):
            return ErrorResponse(HeadTooLarge(message), {"connection": "close"})(scope, receive, send)
        return self._app(scope, receive, send)

    def _too_large(self, scope: Scope) -> str:
        sizes = [len(name) + len(value) for name, value in scope["headers"]]
        if max(sizes, default=0) > self._header:
            return f"A header of the request is larger than the limit of {self._header} bytes."
        if sum(sizes) + len(scope["raw_path"]) + len(scope["query_string"]) > self._head:
            return f"The request's line and headers are larger than the limit of {self._head} bytes."
        return ""


class BodyLimit:
    """Refuses a body that is too large, before or while it is read, and one that is compressed.

    Args:
        app: what comes next.
        limit: bytes.
        larger: paths whose limit is another one.
    """

    def __init__(self, app: ASGIApp, limit: int, larger: Mapping[str, int] | None = None) -> None:
        self._app = app
        self._limit = limit
        self._larger = larger or {}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Passes the request on, with a `receive` that counts."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        headers = headers_in(scope)
        encoding = headers.get("content-encoding")
        if encoding is not None and encoding.strip().lower() != "identity":
            refusal = UnsupportedEncoding(
                "Compressed request bodies are not supported; send it without Content-Encoding."
            )
            return ErrorResponse(refusal)(scope, receive, send)
        limit = self._larger.get(scope["path"], self._limit)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            # The server reads on and drops what comes: closing with bytes unread would reset the answer away.
            return ErrorResponse(_too_large(limit))(scope, receive, send)
        return self._app(scope, self._counting(receive, limit), send)

    def _counting(self, receive: Receive, limit: int) -> Receive:
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


QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are asked all the time; like the files of the page they get no line."""


class AccessLine:
    """Writes one structured line a request, when it is over. It never holds a body, a query or a credential.

    An endpoint adds what it knows to `scope["state"]["access"]`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on and looks at the status that comes back."""
        if scope["type"] != "http" or scope["path"] in QUIET or scope["path"].startswith("/ui/"):
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        more: dict[str, object] = {}
        state = scope.setdefault("state", {})
        state["access"] = more
        status = 499  # of a request whose client left before it got one

        def looking(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        try:
            await self._app(scope, receive, looking)
        except Exception:
            status = 500
            raise
        finally:
            line = {"method": scope["method"], "path": scope["path"], "status": status}
            line |= {"ms": round((time.perf_counter() - started) * 1000, 1), "request_id": state.get("request_id")}
            log.info("request", **(line | more))


def headers_in(scope: Scope) -> Mapping[str, str]:
    """The headers of a request, names in lower case; of several with one name the first. They are read once."""
    state = scope.setdefault("state", {})
    raw, headers = state.get("headers", (None, {}))
    if raw is not scope["headers"]:
        headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
        state["headers"] = scope["headers"], headers
    return cast("Mapping[str, str]", headers)
