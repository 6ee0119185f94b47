"""What the endpoints of files and batches may ask for."""

from typing import Annotated

from fastapi import Depends

from app.deps import KeyDep, ServiceDep
from gateway.batch.desk import Desk


async def _desk(service: ServiceDep) -> Desk:
    return await service.batch.desk()


async def _owner(key: KeyDep) -> str | None:
    return key.id if key is not None else None


DeskDep = Annotated[Desk, Depends(_desk)]
OwnerDep = Annotated[str | None, Depends(_owner)]
"""The id of the key that files and batches belong to; None where nobody needs one."""
