"""`/health`, `/ready` and `/metrics`: for whoever runs the gateway."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from app.deps import ServiceDep

router = APIRouter(tags=["operations"])


@router.get("/health")
async def health() -> dict[str, str]:
    """The process is alive. Asks nobody."""
    return {"status": "ok"}


@router.get("/ready")
async def ready(service: ServiceDep) -> JSONResponse:
    """200 if requests are taken; else 503 and the reasons."""
    reasons = service.not_ready()
    return JSONResponse({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)


@router.get("/metrics")
async def metrics(service: ServiceDep) -> Response:
    """Prometheus' text format."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
