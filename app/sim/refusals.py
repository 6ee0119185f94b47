"""Requests that vLLM refuses, with its own words."""

from typing import Any

BUSY = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


def error(message: str, kind: str, param: str | None, code: int) -> dict[str, Any]:
    """The body of an error, keys in vLLM's order."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def as_message(body: dict[str, Any]) -> dict[str, Any]:
    """The same in Anthropic's shape, as vLLM has it on /v1/messages; what its schema refuses stays as it is there."""
    told = body["error"]
    if told["type"] == "Bad Request":
        return body
    return {"type": "error", "error": {"type": told["type"], "message": told["message"]}}


class Refused(Exception):
    """The request is refused.

    Args:
        status: of the HTTP answer.
        body: the JSON body.
    """

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body["error"]["message"])
        self.status = status
        self.body = body


def bad_request(message: str, param: str | None = None, value: object = None, *, bare: bool = False) -> Refused:
    """A 400 of vLLM's own checks; the message ends with the parameter and value unless `bare`."""
    if param is not None and not bare:
        shown = f", value={value}" if value is not None else ""
        message = f"{message} (parameter={param}{shown})"
    return Refused(400, error(message, "BadRequestError", param, 400))


def invalid(problems: list[dict[str, Any]]) -> Refused:
    """A 400 of the schema: one line a problem."""
    count = "1 validation error" if len(problems) == 1 else f"{len(problems)} validation errors"
    lines = "".join(f"\n  {problem}" for problem in problems)
    return Refused(400, error(f"{count}:{lines}", "Bad Request", problems[0]["loc"], 400))


def wrong_media_type() -> Refused:
    """A body that is not declared as JSON."""
    message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return Refused(400, error(message, "Bad Request", None, 400))


def unknown_model(asked: str, served: str) -> Refused:
    """A 404 for a model that is not served."""
    message = f"The model `{asked}` does not exist. Valid aliases: {served}."
    return Refused(404, error(message, "NotFoundError", "model", 404))


def unknown_response(response_id: str) -> Refused:
    """A 404 for a response that is not kept."""
    message = f"Response with id '{response_id}' not found."
    return Refused(404, error(message, "invalid_request_error", "response_id", 404))


def busy() -> Refused:
    """The queue is full."""
    return Refused(503, error(BUSY, "Service Unavailable", None, 503))


def problem(kind: str, loc: str, message: str, value: object, **context: object) -> dict[str, Any]:
    """One entry of a schema error."""
    entry: dict[str, Any] = {"type": kind, "loc": loc, "msg": message, "input": _shown(value)}
    return entry | ({"ctx": context} if context else {})


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"<dict of {len(value)} items>"
    if isinstance(value, list):
        return f"<list of {len(value)} items>"
    return str(value)
