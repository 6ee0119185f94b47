"""The short way: inference requests go to their endpoint without FastAPI's routing, a third of the application's time.

FastAPI has the same endpoints, for its OpenAPI document and for every method but POST; both ways end in one function.
See docs/adr/0007-the-short-way-to-inference.md.
"""

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from app.answers import ErrorResponse
from app.api.inference import respond
from gateway.endpoints import ENDPOINTS
from gateway.errors import ClientGone, GatewayError


class Straight:
    """The innermost middleware: what is before it holds for these requests too.

    Args:
        app: FastAPI's own way.
        owner: the application whose state has the service.
    """

    def __init__(self, app: ASGIApp, owner: FastAPI) -> None:
        self._app = app
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a POST to an inference endpoint; passes on everything else."""
        endpoint = ENDPOINTS.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await respond(endpoint, scope, receive, self._owner.state.service)
        except GatewayError as error:
            response = ErrorResponse(error)
        except ClientDisconnect:
            response = ErrorResponse(ClientGone("The client closed the connection before its request was whole."))
        await response(scope, receive, send)
