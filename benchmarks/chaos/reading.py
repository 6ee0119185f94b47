"""An event stream, read strictly, and what its chunks say put together. Pure, and no code of the gateway in it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

DONE = b"[DONE]"
LISTS = ("content", "text_offset", "token_logprobs", "tokens", "top_logprobs")
OWN = frozenset({"index", "delta", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_token_ids"})


def events_of(stream: bytes) -> tuple[list[bytes], bytes]:
    """The data of each event, comments left out, and what follows the last whole event.

    The one form that the gateway may write: data lines, LF, an empty line.

    Raises:
        ValueError: it is written in another way.
    """
    *blocks, rest = stream.split(b"\n\n")
    events = []
    for block in blocks:
        if block.startswith(b":") and b"\n" not in block:
            continue
        lines = block.split(b"\n")
        if b"\r" in block or not all(line.startswith(b"data: ") for line in lines):
            raise ValueError(f"not an event: {block[:80]!r}")
        events.append(b"\n".join(line[6:] for line in lines))
    return events, rest


@dataclass(slots=True)
class Choice:
    """What one choice has said: kinds and texts in order, lists joined, and how it ended."""

    story: list[list[str]] = field(default_factory=list)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    ends: list[Any] = field(default_factory=list)

    def tell(self, kind: str, text: str) -> None:
        """Goes on with the story."""
        if self.story and self.story[-1][0] == kind:
            self.story[-1][1] += text
        else:
            self.story.append([kind, text])

    @property
    def size(self) -> int:
        """Characters of its story."""
        return sum(len(text) for _, text in self.story)


@dataclass(slots=True)
class Said:
    """What the chunks of a stream have said.

    `heads` are the values of what each chunk repeats; `late` counts chunks that came for a choice that was finished.
    """

    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    heads: set[str] = field(default_factory=set)
    late: int = 0

    def add(self, chunk: dict[str, Any]) -> None:
        """Takes one chunk."""
        self.heads.add(repr([chunk.get(key) for key in ("id", "object", "model")]))
        if chunk.get("usage"):
            self.usage[",".join(str(choice["index"]) for choice in chunk["choices"])] = chunk["usage"]
        for read in chunk["choices"]:
            self._add(self.choices.setdefault(read["index"], Choice()), read)

    def _add(self, choice: Choice, read: dict[str, Any]) -> None:
        self.late += bool(choice.ends)
        for kind, text in _texts(read):
            choice.tell(kind, text)
        lists = {"token_ids": read.get("token_ids"), "prompt_token_ids": read.get("prompt_token_ids")}
        lists |= {name: (read.get("logprobs") or {}).get(name) for name in LISTS}
        for name, values in lists.items():
            if values:
                choice.lists.setdefault(name, []).extend(values)
        if read.get("finish_reason"):
            choice.ends.append([read["finish_reason"], read.get("stop_reason")])

    @property
    def whole(self) -> bool:
        """Whether every choice has ended."""
        return bool(self.choices) and all(choice.ends for choice in self.choices.values())

    @property
    def size(self) -> int:
        """Characters of all stories."""
        return sum(choice.size for choice in self.choices.values())


def _texts(read: dict[str, Any]) -> Iterable[tuple[str, str]]:
    delta = dict(read.get("delta", {"text": read.get("text")}))
    calls = delta.pop("tool_calls", None) or []
    texts = [(kind, value) for kind, value in delta.items() if value]
    for call in calls:
        fields = {"id": call.get("id"), "type": call.get("type"), **call.get("function", {})}
        texts += [(f"tool {call['index']} {name}", value) for name, value in fields.items() if value]
    texts += [(f"unknown {name}", str(value)) for name, value in read.items() if name not in OWN]
    return texts


def said_by(chunks: Iterable[bytes]) -> Said:
    """What these chunks say."""
    said = Said()
    for chunk in chunks:
        said.add(json.loads(chunk))
    return said


def is_prefix(part: Said, whole: Said) -> bool:
    """Whether `part` is a beginning of `whole`, choice by choice."""
    if not part.heads <= whole.heads or not part.choices.keys() <= whole.choices.keys():
        return False
    return all(_begins(choice, whole.choices[index]) for index, choice in part.choices.items())


def is_equal(one: Said, other: Said) -> bool:
    """Whether both say the same."""
    return one.choices == other.choices and one.usage == other.usage and one.heads == other.heads


def _begins(part: Choice, whole: Choice) -> bool:
    count = len(part.story)
    if count > len(whole.story) or part.ends != whole.ends[: len(part.ends)]:
        return False
    if part.story[:-1] != whole.story[: max(count - 1, 0)]:
        return False
    if part.story:
        (kind, text), (expected, longer) = part.story[-1], whole.story[count - 1]
        if kind != expected or not longer.startswith(text):
            return False
    return all(values == whole.lists.get(name, [])[: len(values)] for name, values in part.lists.items())
