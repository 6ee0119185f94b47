"""Lets in who has a key, before anything else is read of a request.

The key comes as `Authorization: Bearer KEY`; on Anthropic's endpoints `X-Api-Key: KEY` too. It never reaches an engine,
a log line or an error: what is known of a request from here on is the key's id and rights.
"""

from collections.abc import Collection, Mapping

from starlette.types import Scope

from app.wiring import Service
from gateway.endpoints import shape_of
from gateway.errors import GatewayError
from gateway.telemetry import KeyRefused
from gateway.wire.shapes import ANTHROPIC

OPEN = frozenset({"/health", "/ready", "/"})
"""What everybody may ask: whether it is well, and the page, which has to be there to be told a key."""

OPEN_BELOW = "/ui/assets/"
"""The page's files; nothing in them is of this gateway."""


class Guard:
    """Refuses who has no key, where keys are needed.

    Args:
        more: paths that are open too.
    """

    def __init__(self, more: Collection[str] = ()) -> None:
        self._open = OPEN | frozenset(more)

    async def admit(self, scope: Scope, headers: Mapping[str, str], service: Service) -> None:
        """Leaves the key in `scope["state"]["key"]` and its id in `["key_id"]`; nothing where none is needed.

        Raises what `Keyring.check` does.
        """
        path = scope["path"]
        if service.keys.ring.open or path in self._open or path.startswith(OPEN_BELOW):
            return
        state = scope["state"]
        try:
            key = await service.keys.admit(credential(path, headers))
        except GatewayError as error:
            service.observer(KeyRefused(type(error).__name__))
            state["access"]["error"] = type(error).__name__
            raise
        if key is not None:
            state["key"], state["key_id"] = key, key.id
            state["access"]["key"] = key.id


def credential(path: str, headers: Mapping[str, str]) -> str | None:
    """The secret that a request brings, None if it brings none."""
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return secret.strip() or None
    if shape_of(path) is ANTHROPIC:
        return headers.get("x-api-key", "").strip() or None
    return None
