"""The endpoints that are not generation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.sim.asked import read_count
from app.sim.http import Page, json_page
from app.sim.refusals import bad_request
from app.sim.schema import read_object
from app.sim.settings import SimSettings
from app.sim.vocabulary import decode, encode

VERSION = "0.32.0"
FINISHES = ("stop", "length", "abort", "error", "repetition")
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(slots=True)
class Counts:
    """What the engine has counted since it was made."""

    running: int = 0
    waiting: int = 0
    generations: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    rejected: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISHES, 0))


def models_page(settings: SimSettings, now: int) -> Page:
    """GET /v1/models."""
    permission = {
        "id": f"modelperm-{now:016x}",
        "object": "model_permission",
        "created": now,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": settings.model,
        "object": "model",
        "created": now,
        "owned_by": "vllm",
        "root": settings.model,
        "parent": None,
        "max_model_len": settings.max_model_len,
        "permission": [permission],
    }
    return json_page({"object": "list", "data": [card]})


def metrics_page(settings: SimSettings, counts: Counts, started: float) -> Page:
    """GET /metrics: those of vLLM's metrics that a gateway reads."""
    label = f'engine="0",model_name="{settings.model}"'
    gauges = [
        ("num_requests_running", "Number of requests in model execution batches.", counts.running),
        ("num_requests_waiting", "Number of requests waiting to be processed.", counts.waiting),
        ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", min(1.0, counts.running / 256)),
    ]
    counters = [
        ("prompt_tokens", "Number of prefill tokens processed.", counts.prompt_tokens),
        ("generation_tokens", "Number of generation tokens processed.", counts.generation_tokens),
    ]
    lines = [line for name, text, value in gauges for line in _metric(name, "gauge", text, f"{{{label}}} {value:.1f}")]
    lines += [
        line
        for name, text, value in counters
        for line in _metric(f"{name}_total", "counter", text, f"{{{label}}} {value:.1f}")
    ]
    success = [
        f'{{engine="0",finished_reason="{reason}",model_name="{settings.model}"}} {count:.1f}'
        for reason, count in counts.finished.items()
    ]
    lines += _metric("request_success_total", "counter", "Count of successfully processed requests.", *success)
    rejected = f'{{model_name="{settings.model}",reason="max_num_queued_reqs"}} {counts.rejected:.1f}'
    lines += _metric("admission_rejections_total", "counter", "Number of admission attempts rejected.", rejected)
    lines += [
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {started:.6f}",
    ]
    return Page(body="\n".join([*lines, ""]).encode(), content_type=_METRICS_TYPE)


def _metric(name: str, kind: str, text: str, *samples: str) -> list[str]:
    head = [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"]
    return head + [f"vllm:{name}{sample}" for sample in samples]


def tokenize_page(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Page:
    """POST /tokenize.

    Raises:
        Refused: the body is no JSON object.
    """
    fields = read_object(body, headers.get("content-type"))
    text = fields.get("prompt")
    if not isinstance(text, str):
        text = "".join(_text(message) for message in _list(fields.get("messages")))
    ids = encode(text)
    strings = [decode(i) for i in ids] if fields.get("return_token_strs") else None
    return json_page({"count": len(ids), "max_model_len": settings.max_model_len, "tokens": ids, "token_strs": strings})


def count_page(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Page:
    """POST /v1/messages/count_tokens.

    Raises:
        Refused: with vLLM's status and body.
    """
    tokens = read_count(body, headers, settings).prompt_tokens
    return json_page({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}})


def detokenize_page(body: bytes, headers: Mapping[str, str]) -> Page:
    """POST /detokenize.

    Raises:
        Refused: the body is no JSON object, or an id is out of the vocabulary.
    """
    ids = _list(read_object(body, headers.get("content-type")).get("tokens"))
    texts = [decode(i) if isinstance(i, int) else None for i in ids]
    for token_id, text in zip(ids, texts, strict=True):
        if text is None:
            raise bad_request(f"Token id {token_id} is out of vocabulary")
    return json_page({"prompt": "".join(text or "" for text in texts)})


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(message: object) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


def not_found() -> Page:
    """A path that does not exist."""
    return json_page({"detail": "Not Found"}, 404)


def wrong_method(allowed: str) -> Page:
    """A path that exists for other methods."""
    return json_page({"detail": "Method Not Allowed"}, 405, [("allow", allowed)])
