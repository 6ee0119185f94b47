"""Who says what: the tokens of every choice of an answer."""

import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import orjson

from app.sim.asked import Asked
from app.sim.controls import Controls
from app.sim.vocabulary import (
    CALL,
    CALL_OVER,
    END,
    PROSE,
    THINK,
    THINK_OVER,
    Kind,
    Token,
    broken,
    spelled,
)

STAMP = "@ssssssssssssssss"  # stands for "@<16 hex digits>" until the moment of sending
_STAMP_ID = 900
_NAME_ID = 901
_LONG_ID = 902
_JSON = re.compile(r"[A-Za-z0-9_]{1,6}|\s?[^\sA-Za-z0-9_]|\s")


@dataclass(frozen=True, slots=True)
class Answer:
    """The tokens of one choice and how they end: stop, length or tool_calls."""

    tokens: Sequence[Token]
    finish: str


def answers(asked: Asked, controls: Controls, default_tokens: int) -> list[Answer]:
    """One answer a choice; the same prompt, seed and index give the same tokens."""
    return [
        _answer(asked, controls, default_tokens, zlib.crc32(repr((prompt, i, controls.seed)).encode()))
        for prompt in asked.prompts
        for i in range(asked.n)
    ]


def _answer(asked: Asked, controls: Controls, default_tokens: int, seed: int) -> Answer:
    most = asked.room if asked.limit is None else min(asked.limit, asked.room)
    length = default_tokens if asked.limit is None else asked.limit
    if controls.tokens is not None:
        length = controls.tokens
    thoughts = asked.reasoning if controls.reasoning is None else controls.reasoning
    tokens = list(islice(chain(_thinking(thoughts, controls, seed), _saying(asked, controls, length, seed)), most + 1))
    if len(tokens) > most:
        return Answer(tokens[:most], "length")
    return Answer(tokens, "tool_calls" if _calls(asked, controls) and asked.choice != "named" else "stop")


def _thinking(count: int | None, controls: Controls, seed: int) -> Iterator[Token]:
    if count is None or not count:
        return
    yield THINK
    yield from islice(_prose(Kind.REASONING, seed + 1, controls.stamp), count)
    yield THINK_OVER


def _saying(asked: Asked, controls: Controls, length: int, seed: int) -> Iterator[Token]:
    if controls.script == "unicode":
        yield from _UNICODE
    elif controls.script == "long_event":
        yield Token(_LONG_ID, "x" * controls.long_event, Kind.CONTENT, "x" * controls.long_event)
    elif calls := _calls(asked, controls):
        if controls.script == "two_tools":
            yield from spelled("Let me look.\n", Kind.CONTENT)
        for i, (name, schema) in enumerate(calls):
            yield from _call(i, name, schema)
    else:
        yield from islice(_prose(Kind.CONTENT, seed, controls.stamp), length)
    yield END


def _prose(kind: Kind, seed: int, stamp: bool) -> Iterator[Token]:
    if stamp:
        token = Token(_STAMP_ID, f" {STAMP}", kind, f" {STAMP}")
        while True:
            yield token
    opening, sentences = PROSE[kind]
    yield from opening
    draw = random.Random(seed)
    while True:
        yield from draw.choice(sentences)


_UNICODE: tuple[Token, ...] = (
    *spelled("Grüße, ", Kind.CONTENT),
    *broken("你"),
    *broken("好"),
    *broken("😀"),
    *spelled(" e\u0301 \u2028\u2029\x85\ufeff ", Kind.CONTENT),
    *broken("🇫"),
    *broken("🇷"),
    *spelled(' "\\u0041" \\n\t\r\n<b>&amp;</b> data: [DONE]\n\n', Kind.CONTENT),
    *spelled("👩\u200d💻 עברית ", Kind.CONTENT),
)
_DEFAULT_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_weather", {"properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}}}),
    ("get_time", {"properties": {"city": {"type": "string"}}}),
)


def _calls(asked: Asked, controls: Controls) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The calls of an answer: what the script forces, else one call of the first tool."""
    if not asked.chat or controls.script in {"unicode", "long_event"}:
        return ()
    if controls.script == "two_tools":
        return (asked.tools or _DEFAULT_CALLS)[:1] + (asked.tools or _DEFAULT_CALLS)[-1:]
    if controls.script == "tools":
        return asked.tools[:1] or _DEFAULT_CALLS[:1]
    return asked.tools[:1]


def _call(index: int, name: str, schema: dict[str, Any]) -> Iterator[Token]:
    yield CALL
    yield Token(_NAME_ID, name, Kind.CALL_NAME, name, index)
    for piece in _JSON.findall(_arguments(schema)):
        yield from spelled(piece, Kind.CALL_ARGUMENTS, index) if len(piece.encode()) > 6 else (_piece(piece, index),)
    yield CALL_OVER


def _piece(text: str, call: int) -> Token:
    return Token(int.from_bytes(b"\x01" + text.encode(), "big"), text, Kind.CALL_ARGUMENTS, text, call)


def _arguments(schema: dict[str, Any]) -> str:
    """Arguments that fit the properties of a schema, with the spaces that models write."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    values = {name: _value(one) for name, one in (properties if isinstance(properties, dict) else {}).items()}
    return "{" + ", ".join(f"{_dump(name)}: {_dump(value)}" for name, value in values.items()) + "}"


def _dump(value: object) -> str:
    return orjson.dumps(value).decode()


def _value(schema: object) -> object:
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    examples: dict[object, object] = {
        "string": "Paris",
        "integer": 21,
        "number": 2.5,
        "boolean": True,
        "array": [],
        "object": {},
    }
    kind = schema.get("type")
    return examples.get(kind) if isinstance(kind, str) else None
