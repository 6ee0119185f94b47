"""The application: routes, middleware and the lifespan that owns the running parts."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from app import errors, wiring
from app.api import ROUTERS, files
from app.bounds import Bounds
from app.front import Front
from app.guard import Guard
from app.upload import MAX_FORM
from config.settings import Settings
from gateway.endpoints import ENDPOINTS


class Application(FastAPI):
    """FastAPI, and before it what each request passes first.

    Attributes:
        front: see `app.front`.
    """

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or runs the lifespan."""
        await self.front(scope, receive, send)

    async def by_routes(self, scope: Scope, receive: Receive, send: Send) -> None:
        """FastAPI's own way."""
        await super().__call__(scope, receive, send)


def create_app(settings: Settings, *, straight: bool = True) -> Application:
    """Builds the application. Nothing runs before its lifespan starts.

    `straight`: inference takes the short way, past FastAPI.
    """
    tracing = _tracing(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with tracing.running, wiring.running(settings) as app.state.service:
            yield

    app = Application(
        title="tokenlane",
        summary="An OpenAI-compatible gateway with a token buffer and two lanes in front of vLLM.",
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # `Traces` and `Metrics` are ours
        docs_url=None,
        redoc_url=None,
    )
    for router in ROUTERS:
        app.include_router(router)
    errors.install(app)
    limits = settings.limits
    larger = {files.UPLOAD_PATH: settings.batch.file_bytes + MAX_FORM}
    bounds = Bounds(limits.head_bytes, limits.header_bytes, limits.body_bytes, larger)
    guard = Guard(["/metrics"] if settings.server.metrics_open else [])
    inference = ENDPOINTS if straight else {}
    front = Front(app, app.by_routes, guard, bounds, inference, access_log=settings.server.access_log)
    app.front = front if tracing.middleware is None else tracing.middleware(front)
    return app


class _Tracing(NamedTuple):
    """The middleware of traces, None without; and what sends them."""

    middleware: Callable[[ASGIApp], ASGIApp] | None
    running: AbstractAsyncContextManager[None]


def _tracing(settings: Settings) -> _Tracing:
    if settings.tracing.endpoint is None:
        return _Tracing(None, nullcontext())
    from app.tracing import Traces, exporting, provider_for  # noqa: PLC0415 - the extra `otel` may not be installed

    provider = provider_for(settings.tracing)
    return _Tracing(partial(Traces, provider=provider), exporting(provider, settings.tracing))
