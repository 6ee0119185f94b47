"""One request as all who handle it know it: its headers, its id, what it was answered, and its line in the log."""

import os
import re
import time
from collections.abc import Awaitable, Mapping
from typing import cast

import structlog
from starlette.types import Message, Scope, Send

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
log = structlog.get_logger("tokenlane.access")

QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are asked all the time; like the files of the page they get no line."""

LEFT = 499
"""The status of a request whose client left before it got one."""


class Visit:
    """One request, from its head to its end.

    Its id is the client's `X-Request-Id` if that is sane, else a new one; it goes out as a header. An endpoint finds it
    in `scope["state"]["request_id"]`, and adds what is to stand in the line to `scope["state"]["access"]`.

    Attributes:
        headers: names in lower case; of several with one name the first.
        request_id: see above.
        status: of the answer, None until it begins.
    """

    __slots__ = ("_field", "_scope", "_send", "_started", "headers", "request_id", "status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self._started = time.perf_counter()
        self._scope = scope
        self._send = send
        self.status: int | None = None
        self.headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in reversed(scope["headers"])}
        sent = self.headers.get("x-request-id", "")
        self.request_id = sent if _SANE_ID.fullmatch(sent) else os.urandom(16).hex()
        self._field = (b"x-request-id", self.request_id.encode())
        state = scope.setdefault("state", {})
        state["request_id"], state["headers"], state["access"] = self.request_id, self.headers, {}

    def send(self, message: Message) -> Awaitable[None]:
        """ASGI's `send`; it holds no message up, and leaves no coroutine of its own behind."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], self._field]
        return self._send(message)

    def write_line(self) -> None:
        """Writes the line, when the request is over. It never holds a body, a query or a credential."""
        scope = self._scope
        path = scope["path"]
        if path in QUIET or path.startswith("/ui/"):
            return
        line = {"method": scope["method"], "path": path, "status": self.status or LEFT}
        line |= {"ms": round((time.perf_counter() - self._started) * 1000, 1), "request_id": self.request_id}
        log.info("request", **(line | scope["state"]["access"]))


def headers_in(scope: Scope) -> Mapping[str, str]:
    """See `Visit.headers`."""
    return cast("Mapping[str, str]", scope["state"]["headers"])
