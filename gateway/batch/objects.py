"""Files, batches and results as OpenAI's clients read them. Pure.

https://platform.openai.com/docs/api-reference/batch/object, .../batch/request-output, .../files/object
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from gateway.batch.jobs import Batch, File, LineState, Usage

REASONS = {
    LineState.EXPIRED: "This request could not be executed before the completion window expired.",
    LineState.CANCELLED: "This request was not executed because the batch was cancelled.",
}
"""What the error file says of lines that were not run."""


def file_object(file: File) -> dict[str, Any]:
    """A File object."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": str(file.purpose),
        "status": "processed",
        "status_details": None,
    }


def batch_object(batch: Batch) -> dict[str, Any]:
    """A Batch object."""
    problems = [asdict(problem) for problem in batch.problems]
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model,
        "errors": {"object": "list", "data": problems} if problems else None,
        "input_file_id": batch.input_file_id,
        "completion_window": batch.completion_window,
        "status": str(batch.status),
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": batch.created_at,
        "in_progress_at": batch.in_progress_at,
        "expires_at": batch.expires_at,
        "finalizing_at": batch.finalizing_at,
        "completed_at": batch.completed_at,
        "failed_at": batch.failed_at,
        "expired_at": batch.expired_at,
        "cancelling_at": batch.cancelling_at,
        "cancelled_at": batch.cancelled_at,
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
        "usage": _usage_object(batch.usage),
        "metadata": batch.metadata,
    }


def _usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def page(objects: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """One page of a list."""
    ids = [each["id"] for each in objects]
    return {
        "object": "list",
        "data": list(objects),
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
        "has_more": has_more,
    }


def answered(line_id: str, custom_id: str, status: int, request_id: str, body: bytes) -> bytes:
    """The line for a request that got an HTTP answer, good or bad.

    Args:
        line_id: `batch_req_...`.
        custom_id: of the input line.
        status: HTTP status.
        request_id: of the request, as the engine and the log know it.
        body: JSON; it stands in the line as it came, numbers spelt as they were.
    """
    response = {"status_code": status, "request_id": request_id, "body": orjson.Fragment(_one_line(body))}
    return orjson.dumps({"id": line_id, "custom_id": custom_id, "response": response, "error": None})


def unanswered(line_id: str, custom_id: str, code: str, message: str) -> bytes:
    """The line for a request without an HTTP answer."""
    error = {"code": code, "message": message}
    return orjson.dumps({"id": line_id, "custom_id": custom_id, "response": None, "error": error})


def usage_of(body: bytes) -> Usage:
    """The tokens that an answer states, in either of OpenAI's spellings; zeros where it states none."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Usage()
    stated = read.get("usage") if isinstance(read, dict) else None
    if not isinstance(stated, dict):
        return Usage()
    return Usage(
        input_tokens=_count(stated, "prompt_tokens", "input_tokens"),
        cached_tokens=_detail(stated, "cached_tokens", "prompt_tokens_details", "input_tokens_details"),
        output_tokens=_count(stated, "completion_tokens", "output_tokens"),
        reasoning_tokens=_detail(stated, "reasoning_tokens", "completion_tokens_details", "output_tokens_details"),
    )


def _one_line(body: bytes) -> bytes:
    """JSON on one line. Whoever breaks lines in JSON does so between its tokens: within strings they are escaped."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def _count(stated: dict[str, Any], *names: str) -> int:
    return next((stated[name] for name in names if isinstance(stated.get(name), int)), 0)


def _detail(stated: dict[str, Any], name: str, *groups: str) -> int:
    return next((_count(stated[group], name) for group in groups if isinstance(stated.get(group), dict)), 0)
