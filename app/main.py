"""The application: routes, middleware and the lifespan that owns the running parts."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from fastapi import FastAPI
from starlette.types import ASGIApp

from app import errors, wiring
from app.api import ROUTERS, files
from app.guard import Guard
from app.middleware import AccessLine, BodyLimit, HeadLimit, RequestId
from app.straight import Straight
from app.upload import MAX_FORM
from config.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """Builds the application. Nothing runs before its lifespan starts."""
    tracing = _tracing(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with tracing.running, wiring.running(settings) as app.state.service:
            yield

    app = FastAPI(
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
    larger = {files.UPLOAD_PATH: settings.batch.file_bytes + MAX_FORM}
    app.add_middleware(Straight, owner=app)
    app.add_middleware(BodyLimit, limit=settings.limits.body_bytes, larger=larger)
    app.add_middleware(HeadLimit, head=settings.limits.head_bytes, header=settings.limits.header_bytes)
    app.add_middleware(Guard, more=["/metrics"] if settings.server.metrics_open else [])
    if settings.server.access_log:
        app.add_middleware(AccessLine)
    if tracing.middleware is not None:
        app.add_middleware(tracing.middleware)
    app.add_middleware(RequestId)
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
