"""What the OpenAPI document says of the endpoints: little of the bodies, which are the engine's, all of the errors."""

from typing import Any, Literal

from pydantic import BaseModel
from starlette.responses import Response

from gateway.endpoints import Endpoint
from gateway.wire.render import INTERNAL, ROWS
from gateway.wire.shapes import ANTHROPIC


class OpenAIErrorBody(BaseModel):
    """What an error says."""

    message: str
    type: str
    param: str | None
    code: str | int | None


class OpenAIError(BaseModel):
    """An error as OpenAI's clients know it."""

    error: OpenAIErrorBody


class AnthropicErrorBody(BaseModel):
    """What an error says."""

    type: str
    message: str


class AnthropicError(BaseModel):
    """An error as Anthropic's clients know it."""

    type: Literal["error"]
    error: AnthropicErrorBody


_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string", "pattern": "^[0-9]+$"}}}
_STATUSES = sorted({row.status for row in (*ROWS.values(), INTERNAL)} - {499})


def _errors(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Every status that the gateway itself may answer with, and whatever else an engine does."""
    statuses: list[int | str] = [*_STATUSES, "4XX", "5XX"]
    return {
        status: {"model": model, "headers": _RETRY_AFTER if status in {429, 503} else {}, "description": _said(status)}
        for status in statuses
    }


def _said(status: int | str) -> str:
    codes = sorted({row.code or row.type for row in (*ROWS.values(), INTERNAL) if row.status == status})
    return f"{', '.join(codes)}." if codes else "An error of the engine."


ERRORS = _errors(OpenAIError)

_STREAM: dict[str, dict[str, Any]] = {"text/event-stream": {}}


def documented(endpoint: Endpoint) -> dict[str, Any]:
    """How the route of an endpoint is described."""
    fields = {"model": {"type": "string"}} | {name: {} for name in endpoint.fields}
    if endpoint.dialect is not None:
        fields["stream"] = {"type": "boolean"}
    schema = {"type": "object", "required": ["model", *endpoint.fields], "properties": fields}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    errors = _errors(AnthropicError) if endpoint.shape is ANTHROPIC else ERRORS
    return {
        "name": endpoint.path.strip("/").replace("/", "_"),
        "summary": endpoint.summary,
        "response_class": Response,
        "responses": {200: _answer(streams=endpoint.dialect is not None), **errors},
        "openapi_extra": {"requestBody": body},
    }


def by_id(summary: str, *, streams: bool = False) -> dict[str, Any]:
    """How a route that asks for one stored response is described."""
    return {"summary": summary, "response_class": Response, "responses": {200: _answer(streams=streams), **ERRORS}}


def _answer(*, streams: bool) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}} | (_STREAM if streams else {})
    return {"description": "The engine's answer.", "content": content}
