"""What each request passes first, in this order, and who answers it then.

    a name -> a key -> the size of its head -> the size of its body -> inference, or FastAPI's routes

A `POST` to an inference endpoint goes there without FastAPI's layers, a third of the application's time. FastAPI has
the same endpoints, for its OpenAPI document and for every method but POST; both ways end in one function. See
docs/adr/0007-the-short-way-to-inference.md.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from app.answers import ErrorResponse
from app.api.inference import respond
from app.bounds import Bounds
from app.errors import fault
from app.guard import Guard
from app.visit import Visit
from gateway.endpoints import Endpoint
from gateway.errors import GatewayError, HeadTooLarge

if TYPE_CHECKING:
    from app.wiring import Service


class Front:
    """The whole application as the server calls it.

    Args:
        owner: its state has the service.
        routes: everything that is not answered here.
        guard: who may ask.
        bounds: how large a request may be.
        endpoints: what is answered here, by path.
        access_log: each request that is over is a line in the log.
    """

    def __init__(
        self,
        owner: FastAPI,
        routes: ASGIApp,
        guard: Guard,
        bounds: Bounds,
        endpoints: Mapping[str, Endpoint],
        *,
        access_log: bool,
    ) -> None:
        self._owner = owner
        self._routes = routes
        self._guard = guard
        self._bounds = bounds
        self._endpoints = endpoints
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or hands on what is none."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        visit = Visit(scope, send)
        try:
            await self._answer(visit, scope, receive)
        except Exception as error:  # ours: the server writes the traceback
            if visit.status is None:
                await fault(error, visit.request_id)(scope, receive, visit.send)
            visit.status = 500
            raise
        finally:
            if self._access_log:
                visit.write_line()

    async def _answer(self, visit: Visit, scope: Scope, receive: Receive) -> None:
        service: Service = self._owner.state.service
        try:
            await self._guard.admit(scope, visit.headers, service)
            self._bounds.check_head(scope)
            receive = self._bounds.on_body(scope, visit.headers, receive)
            endpoint = self._endpoints.get(scope["path"]) if scope["method"] == "POST" else None
            response = self._routes if endpoint is None else await respond(endpoint, scope, receive, service)
        except HeadTooLarge as error:
            response = ErrorResponse(error, {"connection": "close"})
        except GatewayError as error:
            response = ErrorResponse(error)
        await response(scope, receive, visit.send)
