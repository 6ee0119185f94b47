"""`/v1/models`: what the engines of all lanes serve, merged."""

from fastapi import APIRouter

from app.deps import ServiceDep

router = APIRouter(tags=["models"])


@router.get("/v1/models")
async def models(service: ServiceDep) -> dict[str, object]:
    """The models that can be asked for, each once, in the order of the lanes."""
    return {"object": "list", "data": await service.models.listing()}
