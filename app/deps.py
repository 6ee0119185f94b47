"""What an endpoint may ask for."""

from typing import Annotated

from fastapi import Depends, Request

from app.wiring import Service
from gateway.keys import Key


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _key(request: Request) -> Key | None:
    key: Key | None = request.scope["state"].get("key")
    return key


ServiceDep = Annotated[Service, Depends(_service)]
KeyDep = Annotated[Key | None, Depends(_key)]
"""What the client may do; None where it needs no key."""
