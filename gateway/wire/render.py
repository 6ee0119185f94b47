"""The one table of errors: what a client sees of each, before a stream and inside one.

The shape is OpenAI's: `{"error": {"message", "type", "param", "code"}}`. An engine's own error keeps its status and
body; a body that is not JSON is wrapped, since a client cannot be expected to read an engine's HTML page.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from gateway import errors as e


@dataclass(frozen=True, slots=True)
class Row:
    """How one error leaves: HTTP status, OpenAI's `type` and `code`."""

    status: int
    type: str
    code: str | None


ROWS: Mapping[type[e.GatewayError], Row] = {
    e.InvalidRequest: Row(400, "invalid_request_error", None),
    e.RouteNotFound: Row(404, "invalid_request_error", "not_found"),
    e.MethodNotAllowed: Row(405, "invalid_request_error", "method_not_allowed"),
    e.BodyTooLarge: Row(413, "invalid_request_error", "body_too_large"),
    e.HeadTooLarge: Row(431, "invalid_request_error", "head_too_large"),
    e.UnsupportedEncoding: Row(415, "invalid_request_error", "unsupported_encoding"),
    e.LaneFull: Row(429, "rate_limit_error", "lane_full"),
    e.PatienceExhausted: Row(429, "rate_limit_error", "queue_timeout"),
    e.NoEngine: Row(503, "server_error", "no_engine"),
    e.Draining: Row(503, "server_error", "shutting_down"),
    e.EngineAnswered: Row(502, "server_error", "engine_error"),  # only where its own answer cannot be shown
    e.EngineUnreachable: Row(502, "server_error", "engine_unreachable"),
    e.EngineStale: Row(502, "server_error", "engine_unreachable"),
    e.EngineBroke: Row(502, "server_error", "engine_broke"),
    e.EngineTruncated: Row(502, "server_error", "engine_truncated"),
    e.EngineSilent: Row(504, "server_error", "engine_timeout"),
    e.EngineStalled: Row(504, "server_error", "engine_timeout"),
    e.ClientGone: Row(499, "client_error", "client_gone"),
    e.ClientTooSlow: Row(499, "client_error", "client_too_slow"),
}

INTERNAL = Row(500, "server_error", "internal_error")
"""For an exception that is not ours: a fault of this program, said without details."""

HIDDEN_FROM_CLIENTS = frozenset({401, 403, 407})
"""Statuses of an engine that speak of the gateway's own credentials; a client sees 502."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as an HTTP answer: status, JSON body, and headers beside the usual ones."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


def answer(error: BaseException) -> ErrorAnswer:
    """The HTTP answer for an error that is met before anything was sent."""
    if isinstance(error, e.EngineAnswered):
        return _engines_own(error)
    row = _row(error)
    headers: tuple[tuple[str, str], ...] = ()
    if isinstance(error, e.Refused):
        headers = (("retry-after", str(max(1, math.ceil(error.retry_after)))),)
    return ErrorAnswer(row.status, _body(error, row), headers)


def event_data(error: BaseException) -> bytes:
    """The data of the one error event that ends a stream: a JSON object on one line."""
    if isinstance(error, e.EngineAnswered) and error.status not in HIDDEN_FROM_CLIENTS and _is_object(error.body):
        return orjson.dumps(orjson.loads(error.body))
    return _body(error, _row(error))


def error_body(message: str, *, type_: str, param: str | None = None, code: str | int | None = None) -> bytes:
    """A JSON body in OpenAI's shape."""
    return orjson.dumps({"error": {"message": message, "type": type_, "param": param, "code": code}})


def _row(error: BaseException) -> Row:
    return ROWS.get(type(error), INTERNAL) if isinstance(error, e.GatewayError) else INTERNAL


def _body(error: BaseException, row: Row) -> bytes:
    message = str(error) if row is not INTERNAL else "The gateway failed; the request id tells the operator where."
    return error_body(message, type_=row.type, param=getattr(error, "param", None), code=row.code)


def _engines_own(error: e.EngineAnswered) -> ErrorAnswer:
    headers = (("retry-after", error.retry_after),) if error.retry_after else ()
    row = ROWS[e.EngineAnswered]
    if error.status in HIDDEN_FROM_CLIENTS or not 400 <= error.status <= 599:
        return ErrorAnswer(
            row.status, error_body("The engine did not accept the gateway's request.", type_=row.type, code=row.code)
        )
    if _is_object(error.body):
        return ErrorAnswer(error.status, error.body, headers)
    return ErrorAnswer(
        error.status,
        error_body(f"The engine answered {error.status} without a readable reason.", type_=row.type, code=row.code),
        headers,
    )


def _is_object(body: bytes) -> bool:
    """Whether the body is an error in the shape that OpenAI's clients know."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(read, dict) and isinstance(read.get("error"), dict)
