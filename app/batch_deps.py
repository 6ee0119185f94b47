"""What the endpoints of files and batches may ask for."""

from typing import Annotated

from fastapi import Depends, Request

from app.deps import ServiceDep
from gateway.batch.desk import Desk


async def _desk(service: ServiceDep) -> Desk:
    return await service.batch.desk()


async def _owner(request: Request) -> str | None:
    """The id of the key that the request came with, None while there are no keys."""
    key_id: str | None = getattr(request.state, "key_id", None)
    return key_id


DeskDep = Annotated[Desk, Depends(_desk)]
OwnerDep = Annotated[str | None, Depends(_owner)]
