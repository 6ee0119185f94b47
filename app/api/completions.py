"""`/v1/chat/completions` and `/v1/completions`: one path through the gateway, streamed or whole."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.answers import WholeResponse
from app.deps import ServiceDep
from app.sse import TokenStream
from gateway.errors import InvalidRequest

router = APIRouter(tags=["completions"])


@router.post("/v1/chat/completions")
async def chat_completions(request: Request, service: ServiceDep) -> Response:
    """A chat answer: whole, or as an event stream with `"stream": true`."""
    return await _answer("/v1/chat/completions", request, service)


@router.post("/v1/completions")
async def completions(request: Request, service: ServiceDep) -> Response:
    """A completion of a prompt: whole, or as an event stream with `"stream": true`."""
    return await _answer("/v1/completions", request, service)


async def _answer(endpoint: str, request: Request, service: ServiceDep) -> Response:
    headers = dict(request.headers)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidRequest("The body must be sent with Content-Type: application/json.")
    body = await request.body()
    call = service.read(endpoint, body, headers, request.state.request_id)
    if call.stream:
        return TokenStream(service.gateway, call, service.pace)
    return WholeResponse(service.gateway, call)
