"""Everything that is posted on to an engine: a route for each row of `gateway.endpoints`, one path for them all."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from app.answers import WholeResponse
from app.api.document import documented
from app.deps import ServiceDep
from app.sse import TokenStream
from app.visit import headers_in
from app.wiring import Service
from gateway.endpoints import ENDPOINTS, Endpoint
from gateway.errors import ClientGone, InvalidRequest

router = APIRouter(tags=["inference"])


async def respond(endpoint: Endpoint, scope: Scope, receive: Receive, service: Service) -> Response:
    """The response to one request: it has read the request, and will run it when it is sent.

    Raises a GatewayError: ClientGone where the client leaves before its request is whole.
    """
    headers = headers_in(scope)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidRequest("The body must be sent with Content-Type: application/json.")
    body = await _body(receive)
    state = scope["state"]
    key = state.get("key")
    call = service.read(endpoint.path, body, headers, state["request_id"], key)
    if call.stream:
        return service.metered(TokenStream(service.gateway, call, service.pace), key)
    return service.metered(WholeResponse(service.gateway, call), key)


async def _body(receive: Receive) -> bytes:
    message = await receive()
    pieces: list[bytes] = []
    while message["type"] == "http.request":
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        message = await receive()
    raise ClientGone("The client closed the connection before its request was whole.")


def _handler(endpoint: Endpoint) -> Callable[..., Awaitable[Response]]:
    async def answer(request: Request, service: ServiceDep) -> Response:
        return await respond(endpoint, request.scope, request.receive, service)

    return answer


for _endpoint in ENDPOINTS.values():
    router.add_api_route(_endpoint.path, _handler(_endpoint), methods=["POST"], **documented(_endpoint))
