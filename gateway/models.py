"""`/v1/models` over all engines: asked at once, merged, the dead ones left out, kept for some seconds."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from gateway.errors import EngineError, NoEngine
from gateway.routing.pool import Engine
from gateway.upstream.client import EngineClient
from gateway.upstream.engines import KINDS

ANSWER_LIMIT = 2**20
"""Bytes of an engine's listing that are read."""


class ModelCatalogue:
    """What the engines serve.

    Args:
        client: asks the engines.
        engines: all of them, in the order of the lanes.
        timeout: seconds that one engine has to answer.
        keep: seconds for which an answer is good; that there is none is believed for a fifth of it.
    """

    def __init__(
        self, client: EngineClient, engines: Sequence[Engine], *, timeout: float = 2.0, keep: float = 5.0
    ) -> None:
        self._client = client
        self._engines = engines
        self._timeout = timeout
        self._keep = keep
        self._merged: list[dict[str, Any]] = []
        self._good_until = float("-inf")
        self._asking = asyncio.Lock()

    async def listing(self) -> list[dict[str, Any]]:
        """The models, each once, in a stable order. However many ask, an engine is asked once at a time.

        With every engine down it is the last listing that was seen; raises NoEngine if there is none.
        """
        clock = asyncio.get_running_loop().time
        async with self._asking:
            if clock() >= self._good_until:
                merged = _merge(await asyncio.gather(*(self._ask(engine) for engine in self._engines)))
                self._merged = merged or self._merged
                self._good_until = clock() + (self._keep if merged else self._keep / 5)
        if not self._merged:
            raise NoEngine("No engine answers.", retry_after=self._keep)
        return self._merged

    async def _ask(self, engine: Engine) -> list[dict[str, Any]]:
        """One engine's models; none if it does not answer with a listing."""
        kind = KINDS[engine.kind]
        headers = [("authorization", f"Bearer {engine.api_key}")] if engine.api_key else []
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.send("GET", engine.url + kind.models_path, headers=headers, control=True)
                try:
                    body = await response.read(ANSWER_LIMIT)
                finally:
                    response.close()
        except (EngineError, TimeoutError):
            return []
        return [_shown(model, engine) for model in _read(body)]


def _shown(model: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """The model as a client may see it: no path of the engine's disk, and no doubt about a simulated one."""
    shown = {**model, "root": model["id"]} if "root" in model else dict(model)
    if engine.kind == "sim":
        shown["owned_by"] = "tokenlane-simulator"
    return shown


def _read(body: bytes) -> list[dict[str, Any]]:
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []
    data = read.get("data") if isinstance(read, dict) else None
    return [m for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(data, list) else []


def _merge(answers: Iterable[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for models in answers:
        for model in models:
            merged.setdefault(model["id"], model)
    return list(merged.values())
