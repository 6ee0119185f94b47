"""`/v1/models`: what the engines of all lanes serve, merged."""

from fastapi import APIRouter

from app.api.document import ERRORS
from app.deps import KeyDep, ServiceDep
from gateway.errors import ModelNotFound

router = APIRouter(tags=["models"], responses=ERRORS)


@router.get("/v1/models")
async def models(service: ServiceDep, key: KeyDep) -> dict[str, object]:
    """The models that can be asked for, with this key, each once, in the order of the lanes."""
    listing = await service.models.listing()
    return {"object": "list", "data": [each for each in listing if key is None or key.may_ask(each["id"])]}


@router.get("/v1/models/{model_id:path}")
async def model(model_id: str, service: ServiceDep, key: KeyDep) -> dict[str, object]:
    """One model. Its id may have slashes, as `openai/gpt-oss-20b` has."""
    for listed in await service.models.listing():
        if listed["id"] == model_id and (key is None or key.may_ask(model_id)):
            return listed
    raise ModelNotFound(f"The model {model_id[:256]!r} does not exist.")
