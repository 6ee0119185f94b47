"""The normal form of a series of events: what may be merged is merged, and nothing else.

Two series say the same if their normal forms are equal. Between two events that are no piece of a choice the order of
choices is free and the order within each is not. Nothing here shares code with the buffer.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Event = tuple[bytes, bytes]
"""Data and name."""

TEXTS = ("content", "reasoning", "reasoning_content")
ARRAYS = ("content", "refusal", "text_offset", "token_logprobs", "tokens", "top_logprobs")
SILENT = "{}"


@dataclass(slots=True)
class Piece:
    """A chunk of one choice, taken apart: what neighbours share, and what adds up."""

    index: int
    frame: str
    delta: str
    texts: list[str]
    arrays: list[list[Any]]
    usage: Any

    def joins(self, before: "Piece") -> bool:
        """Whether it may be one with the piece before."""
        if self.frame != before.frame or (self.usage is None) != (before.usage is None):
            return False
        return self.delta in {before.delta, SILENT} and len(self.arrays) == len(before.arrays)

    def absorb(self, other: "Piece") -> None:
        """Takes in a piece that joins."""
        for at, text in enumerate(other.texts):
            self.texts[at] += text
        for at, values in enumerate(other.arrays):
            self.arrays[at] += values
        self.usage = other.usage


@dataclass(slots=True)
class Normal:
    """Stretches of pieces, by choice, and what stands between them."""

    stretches: list[dict[int, list[Piece]]] = field(default_factory=lambda: [{}])
    between: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Takes the next event."""
        piece = None if event[1] else piece_of(event[0])
        if piece is None:
            self.between.append(event)
            self.stretches.append({})
            return
        pieces = self.stretches[-1].setdefault(piece.index, [])
        if pieces and piece.joins(pieces[-1]):
            pieces[-1].absorb(piece)
        else:
            pieces.append(piece)


def normal(events: Iterable[Event]) -> Normal:
    """The normal form of these events."""
    form = Normal()
    for event in events:
        form.add(event)
    return form


def piece_of(data: bytes) -> Piece | None:
    """An event's data as a piece; None if it is not a chunk of one unfinished choice."""
    try:
        body = json.loads(data)
        (choice,) = body["choices"]
        index = choice["index"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(index) is not int or index < 0 or choice.get("finish_reason") or body.get("error"):
        return None
    delta = choice.get("delta")
    texts: list[str] = []
    if isinstance(delta, dict):
        texts = [_taken(delta, name) for name in TEXTS if isinstance(delta.get(name), str)]
        texts += [_taken(function, "arguments") for function in _functions(delta)]
    elif isinstance(choice.get("text"), str):
        texts = [_taken(choice, "text")]
    else:
        return None
    arrays = [choice.pop("token_ids")] if isinstance(choice.get("token_ids"), list) else []
    if isinstance(logprobs := choice.get("logprobs"), dict):
        arrays += [logprobs.pop(name) for name in ARRAYS if isinstance(logprobs.get(name), list)]
    usage = body.pop("usage") if isinstance(body.get("usage"), dict) else None
    shape = json.dumps(choice.pop("delta", None))
    return Piece(index, json.dumps(body), shape, texts, arrays, usage)


def _functions(delta: dict[str, Any]) -> list[dict[str, Any]]:
    calls = delta.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [each for each in functions if isinstance(each, dict) and isinstance(each.get("arguments"), str)]


def _taken(holder: dict[str, Any], name: str) -> str:
    text, holder[name] = holder[name], ""
    return str(text)
