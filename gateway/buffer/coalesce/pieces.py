"""Which chunks are pieces of one: what may differ between neighbours, and what has to be equal.

A piece is a chunk of one choice that shows text in one field only and is no end. What may differ is that text and what
counts along with it: `token_ids`, the arrays of `logprobs`, and a cumulative `usage`. All else is in the piece's key,
as bytes: the neighbours' keys have to be equal. So no field appears, vanishes or changes.

Keys unknown here need more than to be equal if they are in a delta, since clients add deltas up: OpenAI's own appends
strings and sums numbers. There only null is safe.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.wire.chunks import TEXT_FIELDS, Json, Reading, is_count

ARRAYS = ("content", "refusal", "text_offset", "token_logprobs", "tokens", "top_logprobs")
"""The arrays of `logprobs`: of chat the first two, of completions the other four."""

_TOOL_TEXT = "arguments"
_LONG_NUMBER = re.compile(rb"(?<=[\[:,\s])-?\d{19,}(?=[\],}\s])")


@dataclass(slots=True)
class Piece:
    """A chunk that may be merged with its neighbours.

    Attributes:
        choice: the index of its choice.
        kind: where its text sits: the field's name, with the tool's index for arguments; empty if its delta is empty.
        key: what neighbours of the same kind have to share.
        body: the chunk. `holder[name]` is its text.
        arrays: where its arrays are.
    """

    choice: int
    kind: str
    body: Json
    holder: Json
    name: str
    arrays: list[tuple[Json, str]]
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.key = self._without([*self.arrays, (self.holder, self.name)] if self.name else self.arrays)

    @property
    def text(self) -> str:
        """Its text; empty if it has none."""
        return str(self.holder[self.name]) if self.name else ""

    @property
    def plain(self) -> bool:
        """Whether nothing but its text may differ from its neighbours."""
        return not self.arrays and not isinstance(self.body.get("usage"), dict)

    def frames(self, silent: "Piece") -> bool:
        """Whether a piece with an empty delta is the same but for the delta."""
        choice = self.body["choices"][0]
        return "delta" in choice and self._without([*self.arrays, (choice, "delta")], kind="") == silent.key

    def absorb(self, other: "Piece") -> None:
        """Takes the other's arrays and usage; the texts are joined by whoever has them all."""
        for (mine, name), (theirs, _) in zip(self.arrays, other.arrays, strict=True):
            mine[name] += theirs[name]
        if isinstance(self.body.get("usage"), dict):
            self.body["usage"] = other.body["usage"]

    def with_text(self, text: str) -> bytes:
        """The chunk with this text."""
        self.holder[self.name] = text
        return orjson.dumps(self.body)

    def _without(self, places: list[tuple[Json, str]], kind: str | None = None) -> bytes:
        """The kind and the chunk with the values at `places`, and its usage, blank."""
        if isinstance(self.body.get("usage"), dict):
            places = [*places, (self.body, "usage")]
        kept = [holder[name] for holder, name in places]
        for holder, name in places:
            holder[name] = _BLANK[type(holder[name])]
        key = (self.kind if kind is None else kind).encode() + b" " + orjson.dumps(self.body)
        for (holder, name), value in zip(places, kept, strict=True):
            holder[name] = value
        return key


_BLANK: dict[type, Any] = {str: "", list: [], dict: {}}


def piece_of(reading: Reading) -> Piece | None:
    """The chunk as a piece; None if it has to go by itself."""
    body = reading.body
    if body is None or not reading.strict or reading.ends or reading.error or reading.name:
        return None
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    place = _place(choice)
    if place is None or not is_count(choice.get("index")):
        return None
    kind, holder, name = place
    return Piece(choice["index"], kind, body, holder, name, _arrays(choice))


def is_exact(data: bytes) -> bool:
    """Whether a chunk survives being parsed and written again: a whole number of more than 64 bits does not."""
    return _LONG_NUMBER.search(data) is None


def _place(choice: Json) -> tuple[str, Json, str] | None:
    """Where the one text of a choice sits: its kind, the object that holds it, and its name there."""
    if "delta" not in choice:
        return ("text", choice, "text") if isinstance(choice.get("text"), str) else None
    delta = choice["delta"]
    if not isinstance(delta, dict) or "text" in choice:
        return None
    if not delta:
        return "", delta, ""
    tools = delta.get("tool_calls")
    texts = [name for name in TEXT_FIELDS if isinstance(delta.get(name), str)]
    if any(value is not None for name, value in delta.items() if name not in texts and name != "tool_calls"):
        return None
    filled = [name for name in texts if delta[name]] or texts
    if tools:
        return _place_in_tool(tools) if not any(delta[name] for name in texts) else None
    return (filled[0], delta, filled[0]) if len(filled) == 1 else None


def _place_in_tool(tools: object) -> tuple[str, Json, str] | None:
    """The arguments of a call that is under way: it has neither id nor name, which are said once."""
    if not isinstance(tools, list) or len(tools) != 1 or not isinstance(tools[0], dict):
        return None
    call = tools[0]
    function = call.get("function")
    if (
        not is_count(call.get("index"))
        or not isinstance(function, dict)
        or not isinstance(function.get(_TOOL_TEXT), str)
    ):
        return None
    if any(value is not None for name, value in call.items() if name not in {"index", "type", "function"}):
        return None
    if any(value is not None for name, value in function.items() if name != _TOOL_TEXT):
        return None
    return f"{_TOOL_TEXT} {call['index']}", function, _TOOL_TEXT


def _arrays(choice: Json) -> list[tuple[Json, str]]:
    arrays = [(choice, "token_ids")] if isinstance(choice.get("token_ids"), list) else []
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        arrays += [(logprobs, name) for name in ARRAYS if isinstance(logprobs.get(name), list)]
    return arrays
