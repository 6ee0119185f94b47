"""The chat page at `/`, its files, and what its status view shows.

The page is a client of `/v1` like any other; under `/ui` is only what a person needs beside it: the server's defaults
for the settings panel, and the lanes as they are now.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, FastAPI, Request
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from app.deps import ServiceDep
from app.recent import SLOT_S, Percentiles, Slot, of_buckets, of_values
from app.web.assets import Asset, Assets, load
from app.wiring import Service
from gateway.call import MAX_DELAY, MAX_TOKENS
from gateway.errors import RouteNotFound
from gateway.lane import Lane

STATUS_INTERVAL_S = 1.0
"""Seconds between two snapshots of the status stream."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

SAFE = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of the page and of each of its files."""

FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Assets]]:
    yield {"assets": await asyncio.to_thread(load)}


async def _assets(request: Request) -> Assets:
    assets: Assets = request.state.assets
    return assets


AssetsDep = Annotated[Assets, Depends(_assets)]
router = APIRouter(tags=["page"], lifespan=_lifespan, include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request, assets: AssetsDep) -> Response:
    """The page."""
    return _answer(request, assets.index, ASK_AGAIN)


@router.api_route("/ui/assets/{digest}/{path:path}", methods=["GET", "HEAD"])
async def asset(digest: str, path: str, request: Request, assets: AssetsDep) -> Response:
    """A file of the page. A page of another version that is still open gets this version's file, uncached."""
    if (found := assets.files.get(path)) is None:
        raise RouteNotFound(f"There is no GET {request.url.path}.")
    return _answer(request, found, FOR_EVER if digest == assets.digest else ASK_AGAIN)


@router.get("/ui/config")
async def config(service: ServiceDep) -> Response:
    """What the settings panel starts from."""
    settings = service.settings
    lanes = [
        {
            "name": name,
            "buffer": lane.buffer.model_dump(include={"strategy", "tokens", "delay_ms"}),
            "simulated": all(engine.kind == "sim" for engine in settings.engines_of(name)),
        }
        for name, lane in settings.lanes.items()
    ]
    answer = {
        "version": version("tokenlane"),
        "default_lane": settings.default_lane,
        "lanes": lanes,
        "bounds": {"tokens": [1, MAX_TOKENS], "delay_ms": [0, round(MAX_DELAY * 1000)]},
    }
    return _json(answer)


@router.get("/ui/status")
async def status(service: ServiceDep) -> Response:
    """The lanes as they are now."""
    return _json(_snapshot(service))


@router.get("/ui/status/stream")
async def status_stream(service: ServiceDep) -> EventSourceResponse:
    """The same once a second, as an event stream. It ends when the service drains."""
    return EventSourceResponse(_snapshots(service), headers={"x-accel-buffering": "no"}, sep="\n")


def _json(value: dict[str, Any]) -> Response:
    return Response(orjson.dumps(value), headers={"cache-control": "no-store"}, media_type="application/json")


async def _snapshots(service: Service) -> AsyncIterator[dict[str, str]]:
    while not service.draining:
        yield {"data": orjson.dumps(_snapshot(service)).decode()}
        await asyncio.sleep(STATUS_INTERVAL_S)


def _snapshot(service: Service) -> dict[str, Any]:
    lanes = service.gateway.lanes
    return {
        "draining": service.draining,
        "slot_s": SLOT_S,
        "lanes": [_lane(service, name, lane) for name, lane in lanes.items()],
    }


def _lane(service: Service, name: str, lane: Lane) -> dict[str, Any]:
    gate = lane.gate.statistics()
    minute = service.recent.minute(name)
    return {
        "name": name,
        "slots": gate.slots,
        "shared": len(gate.lanes) > 1,
        "running": gate.lanes[name].running,
        "waiting": gate.lanes[name].waiting,
        "queue": service.settings.lanes[name].queue,
        "engines": [
            {
                "name": engine.name,
                "in_flight": engine.in_flight,
                "pool_size": engine.pool_size,
                "state": engine.breaker.state,
                "reason": f"warming: {engine.warming}" if engine.warming else engine.breaker.reason,
            }
            for engine in lane.pool.engines
        ],
        "minute": _counts(minute)
        | {"ttft": _milliseconds(of_values(minute.ttft)), "itl": _milliseconds(of_buckets(minute.itl))},
        "history": _history(service.recent.history(name)),
    }


def _counts(slot: Slot) -> dict[str, Any]:
    return {
        "requests": slot.requests,
        "refused": slot.refused,
        "failed": slot.failed,
        "tokens": slot.tokens,
        "flushes": {str(reason): count for reason, count in slot.flushes.items()},
        "tokens_a_flush": slot.tokens_a_flush,
    }


def _history(slots: list[Slot]) -> dict[str, list[float | None]]:
    """Columns, oldest slot first, as a plot takes them; milliseconds, tokens a second."""
    ttft = [_milliseconds(of_values(slot.ttft)) for slot in slots]
    itl = [_milliseconds(of_buckets(slot.itl)) for slot in slots]
    return {
        "ttft_p50": [each["p50"] if each else None for each in ttft],
        "ttft_p95": [each["p95"] if each else None for each in ttft],
        "itl_p50": [each["p50"] if each else None for each in itl],
        "itl_p95": [each["p95"] if each else None for each in itl],
        "tokens_s": [round(slot.tokens / SLOT_S, 1) for slot in slots],
    }


def _milliseconds(percentiles: Percentiles | None) -> dict[str, float] | None:
    if percentiles is None:
        return None
    return {name: round(seconds * 1000, 2) for name, seconds in asdict(percentiles).items()}


def _answer(request: Request, asset: Asset, cache: str) -> Response:
    body, etag, headers = asset.chosen(request.headers.get("accept-encoding", ""))
    headers |= SAFE | {"etag": etag, "cache-control": cache}
    if etag in {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers={k: v for k, v in headers.items() if k != "content-encoding"})
    return Response(body, headers=headers, media_type=asset.content_type)
