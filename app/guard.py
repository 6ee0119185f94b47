"""Lets in who has a key, before anything else is read of a request. Pure ASGI middleware.

The key comes as `Authorization: Bearer KEY`; on Anthropic's endpoints `X-Api-Key: KEY` too. It never reaches an engine,
a log line or an error: what is known of a request from here on is the key's id and rights.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from app.answers import ErrorResponse
from app.middleware import headers_in
from gateway.endpoints import shape_of
from gateway.errors import GatewayError
from gateway.telemetry import KeyRefused
from gateway.wire.shapes import ANTHROPIC

if TYPE_CHECKING:
    from app.wiring import Service

OPEN = frozenset({"/health", "/ready", "/"})
"""What everybody may ask: whether it is well, and the page, which has to be there to be told a key."""

OPEN_BELOW = "/ui/assets/"
"""The page's files; nothing in them is of this gateway."""


class Guard:
    """Refuses who has no key, where keys are needed.

    Args:
        app: what comes next; it finds the key in `scope["state"]["key"]` and its id in `["key_id"]`.
        more: paths that are open too.
    """

    def __init__(self, app: ASGIApp, more: Collection[str] = ()) -> None:
        self._app = app
        self._open = OPEN | frozenset(more)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401."""
        path = scope.get("path", "")
        if scope["type"] != "http" or path in self._open or path.startswith(OPEN_BELOW):
            await self._app(scope, receive, send)
            return
        service: Service = scope["app"].state.service
        state = scope.setdefault("state", {})
        try:
            key = await service.keys.admit(credential(scope))
        except GatewayError as error:
            service.observer(KeyRefused(type(error).__name__))
            if (line := state.get("access")) is not None:
                line["error"] = type(error).__name__
            await ErrorResponse(error)(scope, receive, send)
            return
        if key is not None:
            state["key"], state["key_id"] = key, key.id
            if (line := state.get("access")) is not None:
                line["key"] = key.id
        await self._app(scope, receive, send)


def credential(scope: Scope) -> str | None:
    """The secret that a request brings, None if it brings none."""
    headers = headers_in(scope)
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return secret.strip() or None
    if shape_of(scope["path"]) is ANTHROPIC:
        return headers.get("x-api-key", "").strip() or None
    return None
