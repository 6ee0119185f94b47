"""The one table of errors: what a client sees of each, before a stream and inside one.

The shape is OpenAI's but for the endpoints that are Anthropic's; see `shapes`. An engine's own error keeps its status
and body; a body that has not the shape is wrapped, since a client cannot be expected to read an engine's HTML page.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from gateway import errors as e
from gateway.wire.shapes import OPENAI, Said, Shape


@dataclass(frozen=True, slots=True)
class Row:
    """How one error leaves: HTTP status, OpenAI's `type` and `code`."""

    status: int
    type: str
    code: str | None


ROWS: Mapping[type[e.GatewayError], Row] = {
    e.InvalidRequest: Row(400, "invalid_request_error", None),
    e.KeyMissing: Row(401, "invalid_request_error", "missing_api_key"),
    e.KeyRejected: Row(401, "invalid_request_error", "invalid_api_key"),
    e.LaneForbidden: Row(403, "invalid_request_error", "lane_forbidden"),
    e.RouteNotFound: Row(404, "invalid_request_error", "not_found"),
    e.ModelNotFound: Row(404, "invalid_request_error", "model_not_found"),
    e.ResponseNotFound: Row(404, "invalid_request_error", "response_not_found"),
    e.NoSuchFile: Row(404, "invalid_request_error", None),
    e.NoSuchBatch: Row(404, "invalid_request_error", None),
    e.MethodNotAllowed: Row(405, "invalid_request_error", "method_not_allowed"),
    e.BodyTooLarge: Row(413, "invalid_request_error", "body_too_large"),
    e.HeadTooLarge: Row(431, "invalid_request_error", "head_too_large"),
    e.UnsupportedEncoding: Row(415, "invalid_request_error", "unsupported_encoding"),
    e.LaneFull: Row(429, "rate_limit_error", "lane_full"),
    e.PatienceExhausted: Row(429, "rate_limit_error", "queue_timeout"),
    e.QuotaExceeded: Row(429, "rate_limit_error", "rate_limit_exceeded"),
    e.KeysUnavailable: Row(503, "server_error", "keys_unavailable"),
    e.BatchesUnavailable: Row(503, "server_error", "batches_unavailable"),
    e.DiskFull: Row(507, "server_error", "disk_full"),
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

CHALLENGES: Mapping[type[e.GatewayError], str] = {
    e.KeyMissing: 'Bearer realm="tokenlane"',
    e.KeyRejected: 'Bearer realm="tokenlane", error="invalid_token"',
}
"""What WWW-Authenticate says (RFC 6750, 3)."""

INTERNAL = Row(500, "server_error", "internal_error")
"""For an exception that is not ours: a fault of this program, said without details."""

HIDDEN_FROM_CLIENTS = frozenset({401, 403, 407})
"""Statuses of an engine that speak of the gateway's own credentials; a client sees 502."""


NOT_SERVED = Row(404, "invalid_request_error", "not_served")
"""For an endpoint that is ours but not the engine's: vLLM has no embeddings for a model that generates."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as an HTTP answer: status, JSON body, and headers beside the usual ones."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


def answer(error: BaseException, shape: Shape = OPENAI) -> ErrorAnswer:
    """The HTTP answer for an error that is met before anything was sent."""
    if isinstance(error, e.EngineAnswered):
        return _engines_own(error, shape)
    row = _row(error)
    headers: tuple[tuple[str, str], ...] = ()
    if isinstance(error, e.Refused):
        headers = (("retry-after", str(max(1, math.ceil(error.retry_after)))),)
    elif isinstance(error, e.GatewayError) and (challenge := CHALLENGES.get(type(error))):
        headers = (("www-authenticate", challenge),)
    return ErrorAnswer(row.status, shape.body(said(error)), headers)


def event_data(error: BaseException, shape: Shape = OPENAI) -> bytes:
    """The data of the one error event that ends a stream: a JSON object on one line."""
    if isinstance(error, e.EngineAnswered) and error.status not in HIDDEN_FROM_CLIENTS:
        own = shape.own(error.status, error.body)
        if own is not None:
            return orjson.dumps(orjson.loads(own))
    return shape.body(said(error))


def said(error: BaseException) -> Said:
    """What a client is told of an error that is not an engine's own."""
    row = _row(error)
    message = str(error) if row is not INTERNAL else "The gateway failed; the request id tells the operator where."
    return _said(row, message, getattr(error, "param", None))


def _said(row: Row, message: str, param: str | None = None) -> Said:
    return Said(row.status, message, row.type, param, row.code)


def _row(error: BaseException) -> Row:
    return ROWS.get(type(error), INTERNAL) if isinstance(error, e.GatewayError) else INTERNAL


def _engines_own(error: e.EngineAnswered, shape: Shape) -> ErrorAnswer:
    row = ROWS[e.EngineAnswered]
    if error.status in HIDDEN_FROM_CLIENTS or not 400 <= error.status <= 599:
        return ErrorAnswer(row.status, shape.body(_said(row, "The engine did not accept the gateway's request.")))
    headers = (("retry-after", error.retry_after),) if error.retry_after else ()
    own = shape.own(error.status, error.body)
    if own is not None:
        return ErrorAnswer(error.status, own, headers)
    if error.status in {404, 405} and _is_detail(error.body):
        message = "The engine of this model does not serve this endpoint."
        return ErrorAnswer(NOT_SERVED.status, shape.body(_said(NOT_SERVED, message)))
    unreadable = Said(
        error.status, f"The engine answered {error.status} without a readable reason.", row.type, code=row.code
    )
    return ErrorAnswer(error.status, shape.body(unreadable), headers)


def _is_detail(body: bytes) -> bool:
    """Whether it is what vLLM's web framework says of a route that it does not have: `{"detail": "Not Found"}`."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(read, dict) and isinstance(read.get("detail"), str)
