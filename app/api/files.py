"""`/v1/files`: what batches read and write.

https://platform.openai.com/docs/api-reference/files
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, Response

from app.api.document import ERRORS
from app.batch_deps import DeskDep, OwnerDep
from app.upload import read_form
from gateway.batch.desk import storing
from gateway.batch.objects import file_object, page
from gateway.errors import InvalidRequest

router = APIRouter(tags=["files"], responses=ERRORS)

MAX_LIMIT = 10_000
UPLOAD_PATH = "/v1/files"
"""Where a body may be larger than elsewhere."""


@router.post(UPLOAD_PATH)
async def upload(request: Request, desk: DeskDep, owner: OwnerDep) -> dict[str, Any]:
    """Takes a file: a form with `purpose` (`batch`), `file`, and `expires_after[anchor]`, `expires_after[seconds]`."""
    file_id, writer = await desk.begin_upload()
    with storing(), writer:
        form = await read_form(request.headers.get("content-type", ""), request.stream(), writer)
        if form.filename is None:
            raise InvalidRequest("The form has no file.", param="file")
        return file_object(await desk.keep(file_id, writer, form.fields, form.filename, owner))


@router.get(UPLOAD_PATH)
async def files(
    desk: DeskDep,
    owner: OwnerDep,
    *,
    purpose: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = MAX_LIMIT,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
) -> dict[str, Any]:
    """The files that there are, newest first or, with `order=asc`, oldest first."""
    found, has_more = await desk.files(owner, purpose=purpose, after=after, limit=limit, oldest_first=order == "asc")
    return page([file_object(file) for file in found], has_more=has_more)


@router.get("/v1/files/{file_id}")
async def file(file_id: str, desk: DeskDep, owner: OwnerDep) -> dict[str, Any]:
    """What is known of a file."""
    return file_object(await desk.file(file_id, owner))


@router.get("/v1/files/{file_id}/content", response_class=Response)
async def content(file_id: str, desk: DeskDep, owner: OwnerDep) -> Response:
    """The file itself."""
    found, path = await desk.content(file_id, owner)
    return FileResponse(path, media_type="application/jsonl", filename=found.filename)


@router.delete("/v1/files/{file_id}")
async def delete(file_id: str, desk: DeskDep, owner: OwnerDep) -> dict[str, Any]:
    """Removes a file. One that a running batch reads is kept."""
    await desk.delete(file_id, owner)
    return {"id": file_id, "object": "file", "deleted": True}
