"""Traces through OpenTelemetry, off by default: one span a request, its times and tokens as attributes.

A trace that the client began goes on here, and in the engine: `traceparent` (W3C Trace Context) reaches it with this
span as the parent. The attributes have the names of OpenTelemetry's conventions for HTTP and generative AI where there
are some. Importing this imports OpenTelemetry, which the extra `otel` brings.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from config.access import TracingSettings
from gateway.telemetry import RequestEnded

QUIET = frozenset({"/health", "/ready", "/metrics"})
OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/completions": "text_completion",
    "/v1/responses": "generate_content",
    "/v1/embeddings": "embeddings",
}
"""Paths -> `gen_ai.operation.name`."""

EXPORT_S = 5
"""Seconds that a collector has to take a batch; at the end too, so that one that is away does not hold up a stop."""

_CARRIER = TraceContextTextMapPropagator()


def provider_for(settings: TracingSettings) -> TracerProvider:
    """Makes spans, which go nowhere before `exporting`."""
    resource = Resource.create({"service.name": "tokenlane", "service.version": version("tokenlane")})
    sampler = ParentBased(TraceIdRatioBased(settings.ratio))
    return TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)


@asynccontextmanager
async def exporting(provider: TracerProvider, settings: TracingSettings) -> AsyncIterator[None]:
    """Sends spans to the collector, in batches, from a thread of its own, for as long as the block lasts."""
    exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=EXPORT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield
    finally:
        await asyncio.to_thread(provider.shutdown)


class Traces:
    """The middleware: a span for each request, from its head to its last byte.

    Args:
        app: what comes next; it leaves its report in `scope["state"]["report"]`.
        provider: where spans go.
    """

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        self._app = app
        self._tracer = provider.get_tracer("tokenlane")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, with a `traceparent` of this span."""
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self._app(scope, receive, send)
            return
        parent = _CARRIER.extract(_carried(scope["headers"]), Context())
        span = self._tracer.start_span("request", parent, SpanKind.SERVER)
        scope["headers"] = _with(span, scope["headers"])
        status = 499

        def looking(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        try:
            await self._app(scope, receive, looking)
        except Exception:
            status = 500
            raise
        finally:
            _finish(span, scope, status)


def _carried(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {n.decode(): v.decode("latin-1") for n, v in headers if n in {b"traceparent", b"tracestate"}}


def _with(span: Span, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    carried: dict[str, str] = {}
    _CARRIER.inject(carried, set_span_in_context(span, Context()))
    kept = [(name, value) for name, value in headers if name not in {b"traceparent", b"tracestate"}]
    return kept + [(name.encode(), value.encode()) for name, value in carried.items()]


def _finish(span: Span, scope: Scope, status: int) -> None:
    report: RequestEnded | None = scope.get("state", {}).get("report")
    if span.is_recording():
        route = report.endpoint if report is not None else getattr(scope.get("route"), "path", "")
        span.update_name(f"{scope['method']} {route}".strip())
        attributes: dict[str, AttributeValue] = {"http.request.method": scope["method"], "http.route": route}
        attributes["http.response.status_code"] = status if report is None else report.status
        attributes["tokenlane.request_id"] = scope.get("state", {}).get("request_id", "")
        span.set_attributes(attributes | (_reported(report) if report is not None else {}))
        if (status if report is None else report.status) >= 500:
            span.set_status(Status(StatusCode.ERROR))
    span.end()


def _reported(report: RequestEnded) -> dict[str, AttributeValue]:
    """What is known of a request that went to a lane; nothing of what was asked or answered."""
    found: dict[str, AttributeValue | None] = {
        "gen_ai.operation.name": OPERATIONS.get(report.endpoint),
        "gen_ai.provider.name": "vllm",
        "error.type": report.error or None,
        "tokenlane.lane": report.lane,
        "tokenlane.engine": report.engine,
        "tokenlane.outcome": str(report.outcome),
        "tokenlane.stream": report.stream,
        "tokenlane.queue_s": report.queued,
        "tokenlane.overhead_s": report.overhead,
        "tokenlane.ttft_s": report.ttft,
    }
    if (stats := report.stats) is not None:
        completion = stats.tokens if stats.completion_tokens is None else stats.completion_tokens
        found |= {"gen_ai.usage.input_tokens": stats.prompt_tokens, "gen_ai.usage.output_tokens": completion}
    return {name: value for name, value in found.items() if value is not None}
