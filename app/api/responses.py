"""Stored responses: asked for and cancelled by their id, at the engine that keeps them.

They are there for the key that made them alone. They take no slot: a cancellation that waited for the very stream it is
to end would be of no use. A stored response that is wanted as a stream (`?stream=true`) is a stream like any other.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.api.document import by_id
from app.deps import KeyDep, ServiceDep
from app.sse import TokenStream
from app.visit import headers_in
from app.wiring import Service
from gateway.keys import Key
from gateway.keys.mark import must_be_of
from gateway.stored import path_of

router = APIRouter(tags=["responses"])


@router.get("/v1/responses/{response_id}", **by_id("A stored response, whole or as a stream.", streams=True))
async def retrieve(
    response_id: str,
    request: Request,
    service: ServiceDep,
    key: KeyDep,
    *,
    stream: bool = False,
    starting_after: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """The response as it is now; with `stream=true` its events, those behind `starting_after` if that is given."""
    if not stream:
        return await _asked("GET", response_id, "", service, key)
    after = "" if starting_after is None else f"&starting_after={starting_after}"
    target = f"{path_of(response_id)}?stream=true{after}"
    state = request.scope["state"]
    call = service.read_retrieval(target, response_id, headers_in(request.scope), state["request_id"], key)
    return service.metered(TokenStream(service.gateway, call, service.pace), key)


@router.post("/v1/responses/{response_id}/cancel", **by_id("Ends a response that runs in the background."))
async def cancel(response_id: str, service: ServiceDep, key: KeyDep) -> Response:
    """The response, cancelled."""
    return await _asked("POST", response_id, "/cancel", service, key)


async def _asked(method: str, response_id: str, action: str, service: Service, key: Key | None) -> Response:
    must_be_of(key, response_id)
    answer = await service.gateway.stored.ask(method, response_id, action)
    return Response(answer.body, answer.status, {"cache-control": "no-store"}, media_type=answer.content_type)
