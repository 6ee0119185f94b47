"""The one place where an exception becomes a response: ours by the table, the framework's in the same shape."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from app.answers import ErrorResponse
from gateway.batch.store import StoreFull, StoreUnavailable
from gateway.errors import (
    BatchesUnavailable,
    ClientGone,
    DiskFull,
    GatewayError,
    InvalidRequest,
    MethodNotAllowed,
    RouteNotFound,
)

log = structlog.get_logger("tokenlane.errors")

AWAY_S = 5.0
"""Seconds after which the database of batches is worth another try."""


def install(app: FastAPI) -> None:
    """Registers the handlers."""
    app.add_exception_handler(GatewayError, _ours)
    app.add_exception_handler(StoreUnavailable, _store)
    for kind in (BatchesUnavailable, DiskFull):
        app.add_exception_handler(kind, _folder)
    app.add_exception_handler(HTTPException, _frameworks)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(ClientDisconnect, _left_while_sending)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(request: Request, error: Exception) -> Response:
    return ErrorResponse(error)


async def _store(request: Request, error: Exception) -> Response:
    """The database of files and batches. What it says is for the operator alone."""
    log.error("the database of batches cannot be used", error=repr(error.__cause__ or error))
    if isinstance(error, StoreFull):
        refusal: GatewayError = DiskFull("There is no room to keep this. Nothing was changed.", retry_after=AWAY_S)
    else:
        refusal = BatchesUnavailable("Files and batches cannot be reached now.", retry_after=AWAY_S)
    return await _ours(request, refusal)


async def _folder(request: Request, error: Exception) -> Response:
    """The folder of files. What the system says is for the operator alone."""
    log.error("the folder of files cannot be used", error=repr(error.__cause__))
    return await _ours(request, error)


async def _frameworks(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    if error.status_code == 405:
        refusal = MethodNotAllowed(f"{request.method} is not allowed for {request.url.path}.")
        return ErrorResponse(refusal, error.headers)
    if error.status_code == 404:
        return ErrorResponse(RouteNotFound(f"There is no {request.method} {request.url.path}."))
    return ErrorResponse(InvalidRequest(str(error.detail)))


async def _validation(request: Request, error: Exception) -> Response:
    return ErrorResponse(InvalidRequest("The request is not valid."))


async def _left_while_sending(request: Request, error: Exception) -> Response:
    return ErrorResponse(ClientGone("The client closed the connection before its request was whole."))


async def _unexpected(request: Request, error: Exception) -> Response:
    return fault(error, request.state.request_id)


def fault(error: Exception, request_id: str) -> ErrorResponse:
    """The response to a fault of this program. The server writes the traceback; a line here ties it to a request."""
    log.error("a fault of this program", request_id=request_id, kind=type(error).__name__)
    return ErrorResponse(error)
