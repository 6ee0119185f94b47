"""What is to be known of an engine before it is warmed: its model, how much it takes, and which process it is."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from gateway.errors import EngineAnswered, EngineError, EngineSilent
from gateway.upstream.client import EngineClient, PoolExhausted

ANSWER_LIMIT = 2**22
"""Bytes of an answer that are read; vLLM's metrics have some 100 KB."""

PATIENCE = 10.0
"""Seconds that an engine has for one of these answers."""

_STARTED = re.compile(rb"^process_start_time_seconds(?:\{[^}]*\})? ([0-9.eE+-]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Served:
    """What an engine says of itself; None where it says nothing.

    `max_model_len`: tokens of prompt and answer together.
    """

    model: str | None = None
    max_model_len: int | None = None


async def served(client: EngineClient, url: str, headers: Sequence[tuple[str, str]], model: str | None) -> Served:
    """What /v1/models says, if it is there, of `model` or the first one. Raises EngineError if it cannot be asked."""
    try:
        return read_served(await _get(client, url + "/v1/models", headers), model)
    except EngineAnswered as error:
        if error.status >= 500:
            raise
        return Served(model)


async def started(client: EngineClient, url: str, headers: Sequence[tuple[str, str]]) -> bytes | None:
    """When the engine's process was started, as it writes it: two that differ are two processes. None: not known."""
    try:
        return read_started(await _get(client, url + "/metrics", headers))
    except EngineError:
        return None


def read_served(body: bytes, model: str | None = None) -> Served:
    """A listing of models, read."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Served(model)
    data = read.get("data") if isinstance(read, dict) else None
    for entry in data if isinstance(data, list) else []:
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and model in {None, name}:
            length = entry.get("max_model_len")
            return Served(name, length if isinstance(length, int) and length > 0 else None)
    return Served(model)


def read_started(metrics: bytes) -> bytes | None:
    """The start in Prometheus' text format, None where it is missing: several API servers of an engine have none."""
    found = _STARTED.search(metrics)
    return found[1] if found else None


async def _get(client: EngineClient, url: str, headers: Sequence[tuple[str, str]]) -> bytes:
    try:
        async with asyncio.timeout(PATIENCE):
            response = await client.send("GET", url, headers=headers, control=True)
            try:
                body = await response.read(ANSWER_LIMIT)
            finally:
                response.close()
    except PoolExhausted as error:
        raise EngineAnswered(503, b"") from error
    except TimeoutError as error:
        raise EngineSilent("the engine did not answer a question in time") from error
    if response.status != 200:
        raise EngineAnswered(response.status, body)
    return body
