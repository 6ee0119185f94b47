"""What a client makes of a stream: every field of every chunk, put together as the official client's readers do."""

from collections.abc import Iterable
from typing import Any

ONCE = frozenset({"role", "type", "finish_reason"})
"""Strings that are said, not continued."""


def assembled(chunks: Iterable[Any]) -> dict[str, Any]:
    """Puts chunks of the official client together. Ids and times of the stream itself are left out.

    Of a key at the top the last value counts; of a choice, text and arrays are joined in order.
    """
    whole: dict[str, Any] = {"choices": {}}
    for chunk in chunks:
        read = chunk.model_dump(exclude_unset=True)
        for key in read.keys() - {"id", "created", "choices"}:
            whole[key] = read[key]
        for choice in read.get("choices") or ():
            _add(whole["choices"].setdefault(choice["index"], {}), choice)
    return whole


def _add(whole: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        before = whole.get(key)
        if key == "id":  # of a tool call: it differs from request to request, but it must be said as often
            whole[key] = whole.get(key, 0) + 1
        elif key == "tool_calls" and value:
            calls = whole[key] = before or {}
            for call in value:
                _add(calls.setdefault(call["index"], {}), call)
        elif (isinstance(value, str) and isinstance(before, str) and key not in ONCE) or (
            isinstance(value, list) and isinstance(before, list)
        ):
            whole[key] = before + value
        elif isinstance(value, dict):
            whole[key] = before if isinstance(before, dict) else {}
            _add(whole[key], value)
        elif value is not None or key not in whole:
            whole[key] = value
