"""The endpoints of pooling models, as vLLM answers them: vectors and scores that depend on the texts alone.

A real engine serves either these or generation; the simulator serves both, so that one is enough to try things out.
"""

import base64
import hashlib
import math
import struct
from collections.abc import Mapping
from typing import Any

from app.sim.http import Page, json_page
from app.sim.refusals import bad_request, invalid, problem
from app.sim.rules import check_model, or_default
from app.sim.schema import read_object
from app.sim.settings import SimSettings
from app.sim.vocabulary import decode, encode

DIMENSIONS = 16
MAX_DIMENSIONS = 4096
Headers = Mapping[str, str]


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector of length 1, always the same for the same text."""
    raw = hashlib.shake_128(text.encode("utf-8", "replace")).digest(2 * dimensions)
    numbers = [value / 32768 - 1 for value in struct.unpack(f">{dimensions}H", raw)]
    length = math.sqrt(math.fsum(number * number for number in numbers)) or 1.0
    return [number / length for number in numbers]


def likeness(one: str, other: str) -> float:
    """A score from 0 to 1, 1 for a text and itself."""
    return (1 + math.fsum(a * b for a, b in zip(vector(one), vector(other), strict=True))) / 2


def embeddings_page(body: bytes, headers: Headers, settings: SimSettings, now: int, ordinal: str) -> Page:
    """POST /v1/embeddings.

    Raises:
        Refused: with vLLM's status and body.
    """
    fields = _read(body, headers, settings, "input")
    texts = _texts(fields["input"], "input")
    dimensions = or_default(fields.get("dimensions"), DIMENSIONS)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise bad_request(f"dimensions must be from 1 to {MAX_DIMENSIONS}.", "dimensions", bare=True)
    packed = fields.get("encoding_format") == "base64"
    data = [
        {"index": i, "object": "embedding", "embedding": _packed(numbers) if packed else numbers}
        for i, numbers in enumerate(vector(text, dimensions) for text in texts)
    ]
    head = {"id": f"embd-{ordinal}", "object": "list", "created": now, "model": settings.model}
    return json_page(head | {"data": data, "usage": _usage(texts)})


def rerank_page(body: bytes, headers: Headers, settings: SimSettings, ordinal: str) -> Page:
    """POST /rerank, /v1/rerank and /v2/rerank.

    Raises:
        Refused: with vLLM's status and body.
    """
    fields = _read(body, headers, settings, "query", "documents")
    (query,), documents = _texts(fields["query"], "query"), _texts(fields["documents"], "documents")
    scored = [(likeness(query, text), i, text) for i, text in enumerate(documents)]
    scored.sort(key=lambda one: (-one[0], one[1]))
    most = fields.get("top_n")
    results = [
        {"index": i, "document": {"text": text, "multi_modal": None}, "relevance_score": score}
        for score, i, text in scored[: most if isinstance(most, int) and most > 0 else None]
    ]
    usage = _usage([query, *documents])
    return json_page({"id": f"rerank-{ordinal}", "model": settings.model, "usage": usage, "results": results})


def score_page(body: bytes, headers: Headers, settings: SimSettings, now: int, ordinal: str) -> Page:
    """POST /score and /v1/score.

    Raises:
        Refused: with vLLM's status and body.
    """
    fields = _read(body, headers, settings, "text_1", "text_2")
    ones, others = _texts(fields["text_1"], "text_1"), _texts(fields["text_2"], "text_2")
    if len(ones) == 1:
        ones *= len(others)
    if len(ones) != len(others):
        raise bad_request("Input lengths must be either 1:1, 1:N or N:N")
    pairs = zip(ones, others, strict=True)
    data = [{"index": i, "object": "score", "score": likeness(*pair)} for i, pair in enumerate(pairs)]
    head = {"id": f"score-{ordinal}", "object": "list", "created": now, "model": settings.model}
    return json_page(head | {"data": data, "usage": _usage([*ones, *others])})


def _read(body: bytes, headers: Headers, settings: SimSettings, *required: str) -> dict[str, Any]:
    fields = read_object(body, headers.get("content-type"))
    missing = [problem("missing", f"body.{name}", "Field required", fields) for name in required if name not in fields]
    if missing:
        raise invalid(missing)
    check_model(fields, settings)
    return fields


def _texts(value: object, name: str) -> list[str]:
    """One text or several, also as token ids."""
    several = value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]
    texts = [_text(one) for one in several]
    found = [text for text in texts if text is not None]
    if len(found) < len(texts) or (name == "query" and len(found) != 1):
        raise invalid([problem("string_type", f"body.{name}", "Input should be a valid string", value)])
    return found


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return "".join(decode(i) or "" for i in value if isinstance(i, int)) if value else None
    return value if isinstance(value, str) else None


def _packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def _usage(texts: list[str]) -> dict[str, Any]:
    tokens = sum(len(encode(text)) for text in texts)
    return {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
