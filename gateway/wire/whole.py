"""Answers that are not streamed: read for what is counted, changed in nothing but the service tier."""

import json
from dataclasses import dataclass

import orjson

from gateway.errors import EngineBroke
from gateway.telemetry import StreamStats
from gateway.wire.chunks import is_count
from gateway.wire.request import edit


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """An answer that is not streamed."""

    status: int
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class WholeReading:
    """What a whole answer says: its tokens, its id where it has one, and the body as it leaves."""

    stats: StreamStats
    answer_id: str | None
    body: bytes


def read_whole(body: bytes, tier: str | None) -> WholeReading:
    """Reads an answer of any endpoint, and states the service tier in it if the client asked for one.

    OpenAI counts `prompt_tokens` and `completion_tokens`; responses and messages `input_tokens` and `output_tokens`.
    What only a lenient reader takes for JSON, a bare NaN say, is handed on as it is. Raises EngineBroke for non-JSON.
    """
    stats = StreamStats()
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        _lenient(body)
        return WholeReading(stats, None, body)
    if not isinstance(read, dict):
        return WholeReading(stats, None, body)
    usage = read.get("usage")
    if isinstance(usage, dict):
        stats.prompt_tokens = _count(usage, "prompt_tokens", "input_tokens")
        stats.completion_tokens = _count(usage, "completion_tokens", "output_tokens")
        stats.tokens = stats.completion_tokens or 0
    answer_id = read.get("id")
    if tier is not None:
        body = edit(body, {"service_tier": tier})
    return WholeReading(stats, answer_id if isinstance(answer_id, str) else None, body)


def _lenient(body: bytes) -> None:
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EngineBroke("The engine's answer is not JSON.") from error


def _count(usage: dict[str, object], *names: str) -> int | None:
    for name in names:
        if is_count(value := usage.get(name)):
            return value
    return None
