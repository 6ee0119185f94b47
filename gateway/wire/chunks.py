"""What a chunk of chat/completions or completions says, read without changing it.

Nothing here builds a chunk: what is not understood is reported as such, and the bytes stay what they are.
Sources: OpenAI's API reference ("The chat completion chunk object", "The completion object") and what vLLM 0.32 was
seen to send: token ids, logprobs and a usage per chunk say how many tokens it holds; an event is not a token.
"""

import json
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import orjson

from gateway.errors import EngineAnswered

Json = dict[str, Any]

DONE = b"[DONE]"
TEXT_FIELDS = ("content", "reasoning", "reasoning_content")
"""The fields of a chat delta that hold text. `reasoning` is vLLM's, `reasoning_content` its older name."""


@dataclass(slots=True)
class Reading:
    """What one event says.

    Attributes:
        data: the event's data as it came; `name` its `event:` name.
        body: the parsed JSON object; None for `[DONE]`.
        strict: the JSON is standard JSON; else (NaN, lone surrogates, broken UTF-8) it can be relayed but not rebuilt.
        tokens: how many tokens came with it.
        text: it shows something: text, reasoning, or a tool call.
        last: nothing is expected after it.
        repeated: it says again that a choice is finished, and nothing else.
        error: what the engine reports, if it is an error event.
        opens: the choices for which it is the first event with text.
        ends: it finishes a choice.
    """

    data: bytes
    name: bytes = b""
    body: Json | None = None
    strict: bool = True
    tokens: int = 0
    text: bool = False
    last: bool = False
    repeated: bool = False
    error: EngineAnswered | None = None
    opens: tuple[int, ...] = field(default=())
    ends: bool = False


def parse(data: bytes) -> tuple[Json | None, bool]:
    """The JSON object in `data`, and whether it is standard JSON; None if it is no object for even a lenient reader."""
    strict = True
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        strict = False
        try:
            body = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None, False
    return (body, strict) if isinstance(body, dict) else (None, strict)


def error_of(body: Json, data: bytes) -> EngineAnswered | None:
    """The error that an error event reports: `{"error": ...}`, with the status that its `code` names, else 500."""
    error = body.get("error")
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    status = code if is_count(code) and 400 <= code <= 599 else 500
    return EngineAnswered(status, data)


def choices_of(body: Json) -> list[tuple[int, Json]]:
    """The choices of a chunk with their index, as far as they have one."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return []
    return [
        (choice["index"], choice) for choice in choices if isinstance(choice, dict) and is_count(choice.get("index"))
    ]


def has_text(choice: Json) -> bool:
    """Whether a choice shows something: text, reasoning, a tool call, or a piece of one."""
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    if delta.get("tool_calls"):
        return True
    for name in TEXT_FIELDS:  # noqa: SIM110 - a generator costs more than the whole loop, once a chunk
        if delta.get(name) and isinstance(delta[name], str):
            return True
    return False


def is_empty(choice: Json) -> bool:
    """Whether a choice has neither text nor any other news than its own end."""
    delta = choice.get("delta")
    return not choice.get("text") and not (isinstance(delta, dict) and any(delta.values()))


def listed_tokens(choice: Json) -> int | None:
    """The tokens that a choice lists, by `token_ids` or `logprobs`; None if it lists none."""
    ids = choice.get("token_ids")
    if isinstance(ids, list):
        return len(ids)
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        for name in ("content", "tokens"):
            if isinstance(logprobs.get(name), list):
                return len(logprobs[name])
    return None


def totals_of(usage: Json) -> tuple[int | None, int | None]:
    """Prompt and completion tokens that a usage states: totals so far, never increments."""
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return prompt if is_count(prompt) else None, completion if is_count(completion) else None


def is_count(value: object) -> TypeGuard[int]:
    """Whether a JSON value is a whole number that is not negative; `true` is none."""
    return type(value) is int and value >= 0
