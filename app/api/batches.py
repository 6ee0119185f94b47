"""`/v1/batches`: many requests in one file.

https://platform.openai.com/docs/api-reference/batch
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from app.api.document import ERRORS
from app.batch_deps import DeskDep, OwnerDep
from app.deps import KeyDep, ServiceDep
from gateway.batch.objects import batch_object, page
from gateway.errors import LaneForbidden
from gateway.wire.request import read_object

router = APIRouter(tags=["batches"], responses=ERRORS)


@router.post("/v1/batches")
async def create(request: Request, desk: DeskDep, service: ServiceDep, key: KeyDep, owner: OwnerDep) -> dict[str, Any]:
    """Makes a batch of a file; its lines run in the batch lane, which the key must be allowed to use."""
    if key is not None and not key.may_use(service.lanes.batch):
        raise LaneForbidden("This key may not use the lane that batches run in.")
    return batch_object(await desk.create(read_object(await request.body()), owner))


@router.get("/v1/batches")
async def batches(
    desk: DeskDep,
    owner: OwnerDep,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """The batches that there are, newest first."""
    found, has_more = await desk.batches(owner, after=after, limit=limit)
    return page([batch_object(batch) for batch in found], has_more=has_more)


@router.get("/v1/batches/{batch_id}")
async def batch(batch_id: str, desk: DeskDep, owner: OwnerDep) -> dict[str, Any]:
    """One batch as it is now."""
    return batch_object(await desk.batch(batch_id, owner))


@router.post("/v1/batches/{batch_id}/cancel")
async def cancel(batch_id: str, desk: DeskDep, owner: OwnerDep) -> dict[str, Any]:
    """Stops a batch: lines that run are finished, the others are not begun; what is done can be read."""
    return batch_object(await desk.cancel(batch_id, owner))
