"""What an endpoint may ask for."""

from typing import Annotated

from fastapi import Depends, Request

from app.wiring import Service


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
