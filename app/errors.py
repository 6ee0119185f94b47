"""The one place where an exception becomes a response: ours by the table, the framework's in the same shape."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from app.answers import ErrorResponse
from gateway.errors import ClientGone, GatewayError, InvalidRequest, MethodNotAllowed, RouteNotFound

log = structlog.get_logger("tokenlane.errors")


def install(app: FastAPI) -> None:
    """Registers the handlers."""
    app.add_exception_handler(GatewayError, _ours)
    app.add_exception_handler(HTTPException, _frameworks)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(ClientDisconnect, _left_while_sending)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(request: Request, error: Exception) -> Response:
    return ErrorResponse(error)


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
    """The server writes the traceback; this line ties it to a request.

    It runs outside of every middleware, so the header that names the request has to be set here.
    """
    request_id = request.state.request_id
    log.error("a fault of this program", request_id=request_id, kind=type(error).__name__)
    return ErrorResponse(error, {"x-request-id": request_id})
