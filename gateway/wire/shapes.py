"""The shapes in which an error leaves: OpenAI's, and Anthropic's on its own endpoints.

    OpenAI      {"error": {"message", "type", "param", "code"}}
    Anthropic   {"type": "error", "error": {"type", "message"}}, the type named after the status

Sources: https://platform.openai.com/docs/guides/error-codes and https://docs.anthropic.com/en/api/errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson


@dataclass(frozen=True, slots=True)
class Said:
    """What an error says, whatever the shape: HTTP status, message, and OpenAI's `type`, `param` and `code`."""

    status: int
    message: str
    type: str
    param: str | None = None
    code: str | int | None = None


class Shape(Protocol):
    """One way to write an error."""

    def body(self, said: Said) -> bytes:
        """The JSON body, on one line."""

    def own(self, status: int, body: bytes) -> bytes | None:
        """An engine's error body as it may leave, byte for byte where it has the shape; None if it cannot be read."""


class OpenAIShape:
    """OpenAI's, and vLLM's on most endpoints."""

    def body(self, said: Said) -> bytes:
        """See `Shape.body`."""
        error = {"message": said.message, "type": said.type, "param": said.param, "code": said.code}
        return orjson.dumps({"error": error})

    def own(self, status: int, body: bytes) -> bytes | None:
        """See `Shape.own`."""
        return body if error_in(body) is not None else None


TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Anthropic's types by status. Anthropic itself says 529 where OpenAI and vLLM say 503."""


class AnthropicShape:
    """Anthropic's. vLLM's types, such as `NotFoundError`, are none of Anthropic's: the status names them."""

    def body(self, said: Said) -> bytes:
        """See `Shape.body`."""
        return orjson.dumps({"type": "error", "error": {"type": type_of(said.status), "message": said.message}})

    def own(self, status: int, body: bytes) -> bytes | None:
        """See `Shape.own`."""
        error = error_in(body)
        if error is None or not isinstance(error.get("message"), str):
            return None
        if error.get("type") in TYPES.values() and orjson.loads(body).get("type") == "error":
            return body
        return self.body(Said(status, error["message"], ""))


OPENAI: Shape = OpenAIShape()
ANTHROPIC: Shape = AnthropicShape()


def type_of(status: int) -> str:
    """Anthropic's type for a status that may not be in the table."""
    return TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")


def error_in(body: bytes) -> dict[str, Any] | None:
    """The object under `error` in a body of either shape; None if there is none."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    error = read.get("error") if isinstance(read, dict) else None
    return error if isinstance(error, dict) else None


_NAMED: Mapping[str, int] = {name: status for status, name in TYPES.items() if status != 529} | {
    "BadRequestError": 400,
    "Bad Request": 400,
    "NotFoundError": 404,
    "InternalServerError": 500,
    "internal_error": 500,
    "Service Unavailable": 503,
}


def status_of(error_event: bytes) -> int:
    """The HTTP status that an error event stands for: its code if that is one, else by its type, else 502."""
    try:
        read = orjson.loads(error_event)
    except orjson.JSONDecodeError:
        return 502
    error = error_in(error_event) or (read if isinstance(read, dict) else {})
    code = error.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if type(code) is int and 400 <= code <= 599:
        return code
    kind = error.get("type")
    return _NAMED.get(kind, 502) if isinstance(kind, str) else 502
