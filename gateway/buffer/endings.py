"""What a whole answer is: one small protocol, and what each family of endpoints makes of it.

An answer reads the events of one stream, counts what they hold and knows whether something is still missing, so that
the end of the connection can be told from the end of the answer.

- `openai` (chat/completions, completions): finished when every choice seen has a finish_reason; `[DONE]` comes last.
- `responses`, `messages`: named events that end with a terminal one, never with `[DONE]`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson

from gateway.errors import EngineAnswered
from gateway.wire import chunks, sse
from gateway.wire.chunks import Json, Reading
from gateway.wire.render import event_data
from gateway.wire.shapes import ANTHROPIC


@dataclass(slots=True)
class Usage:
    """Token totals as the engine states them; None until it does."""

    prompt: int | None = None
    completion: int | None = None


class Answer(Protocol):
    """What one stream has said so far."""

    usage: Usage
    closing: bytes
    """What a whole answer whose last word is missing is closed with."""
    answer_id: str | None
    """By which the answer may be asked for later; None until it is said, and where there is no such thing."""

    def read(self, event: sse.Event) -> Reading | None:
        """What the event says; None if it is garbage."""

    @property
    def whole(self) -> bool:
        """Whether the answer is whole if nothing more comes."""

    @property
    def begun(self) -> bool:
        """Whether there is an answer that can be incomplete."""

    def error_event(self, error: BaseException) -> bytes:
        """The one event that ends a stream that is not whole."""


class ChunkedAnswer:
    """An answer in chunks with choices: chat/completions and completions."""

    closing = sse.encode(chunks.DONE)
    answer_id: str | None = None

    def __init__(self) -> None:
        self.usage = Usage()
        self._seen: set[int] = set()
        self._shown: set[int] = set()  # choices that have shown text
        self._ends: dict[int, Json] = {}  # the chunk that finished each choice, without what it showed
        self._completion: dict[int, int] = {}  # running totals of each choice

    @property
    def whole(self) -> bool:  # noqa: D102 - the protocol says it
        return bool(self._ends) and self._seen <= self._ends.keys()

    @property
    def begun(self) -> bool:  # noqa: D102
        return bool(self._seen)

    def error_event(self, error: BaseException) -> bytes:  # noqa: D102
        return sse.encode(event_data(error))

    def read(self, event: sse.Event) -> Reading | None:  # noqa: D102
        data, name = event
        if data.strip() == chunks.DONE:
            return Reading(data, name, last=True)
        body, strict = chunks.parse(data)
        if body is None:
            return None
        reading = Reading(data, name, body, strict, error=chunks.error_of(body, data))
        choices = chunks.choices_of(body)
        if self._ends and self._is_repeated_end(body, choices):
            reading.repeated = True
            return reading
        usage = body.get("usage")
        total = self._look_at_usage(usage) if isinstance(usage, dict) else None
        for index, choice in choices:
            self._look(reading, index, choice, total if len(choices) == 1 else None)
        if total is not None and len(choices) == 1:
            self.usage.completion = sum(self._completion.values())
        return reading

    def _look(self, reading: Reading, index: int, choice: Json, total: int | None) -> None:
        """Notes what a choice says; `total` is the running total of its tokens, where the chunk has one."""
        self._seen.add(index)
        text = chunks.has_text(choice)
        listed = chunks.listed_tokens(choice)
        counted = int(text) if total is None else self._count(index, total)
        reading.tokens += counted if listed is None else listed
        if text:
            reading.text = True
            if index not in self._shown:
                self._shown.add(index)
                reading.opens = (*reading.opens, index)
        if choice.get("finish_reason"):
            reading.ends = True
            self._ends.setdefault(index, _without_text(reading.body or {}, choice))

    def _count(self, index: int, total: int) -> int:
        """The tokens that are new in a choice's running total."""
        before = self._completion.get(index, 0)
        self._completion[index] = max(total, before)
        return max(0, total - before)

    def _look_at_usage(self, usage: Json) -> int | None:
        """The completion tokens so far, which a chunk of one choice says of that choice only."""
        prompt, completion = chunks.totals_of(usage)
        if prompt is not None:
            self.usage.prompt = prompt
        if completion is not None:
            self.usage.completion = completion
        return completion

    def _is_repeated_end(self, body: Json, choices: list[tuple[int, Json]]) -> bool:
        """Some engines and proxies say twice that a choice is finished; strict clients do not bear it."""
        if len(choices) != 1:
            return False
        index, choice = choices[0]
        end = self._ends.get(index)
        return end is not None and chunks.is_empty(choice) and _without_text(body, choice) == end


def _without_text(body: Json, choice: Json) -> Json:
    """The chunk of one choice, without what the choice shows."""
    rest = {key: value for key, value in choice.items() if key not in {"delta", "text"}}
    return {**body, "choices": [rest]}


TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "message_stop", "error"})
"""The events that end a stream of responses or messages."""


class TypedAnswer:
    """An answer in named events: what responses and messages have in common.

    Attributes:
        answer_id: of the response, once it has been said.
    """

    closing = b""

    def __init__(self) -> None:
        self.usage = Usage()
        self.begun = False
        self.whole = False
        self.answer_id: str | None = None
        self._shown = False

    def read(self, event: sse.Event) -> Reading | None:  # noqa: D102
        data, name = event
        if data.strip() == chunks.DONE:
            return Reading(data, name, repeated=True)  # it ends nothing here: clients wait for the terminal event
        body, strict = chunks.parse(data)
        if body is None:
            return None
        self.begun = True
        kind = str(body.get("type") or name.decode("utf-8", "replace"))
        reading = Reading(data, name, body, strict, last=kind in TERMINAL)
        if kind == "response.failed":
            reading.error = EngineAnswered(500, data)
        elif kind == "error":
            reading.error = chunks.error_of(body, data) or EngineAnswered(500, data)
        self.whole = reading.last
        self._look(reading, kind, body)
        return reading

    def _look(self, reading: Reading, kind: str, body: Json) -> None:
        if kind.endswith(".delta") or kind == "content_block_delta":
            reading.text, reading.tokens = True, 1
            if not self._shown:
                self._shown = True
                reading.opens = (0,)
        for holder in (body, body.get("response"), body.get("message")):
            if self.answer_id is None and isinstance(holder, dict) and isinstance(holder.get("id"), str):
                self.answer_id = holder["id"]
            usage = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(usage, dict):
                prompt, completion = usage.get("input_tokens"), usage.get("output_tokens")
                self.usage.prompt = prompt if chunks.is_count(prompt) else self.usage.prompt
                self.usage.completion = completion if chunks.is_count(completion) else self.usage.completion


class ResponsesAnswer(TypedAnswer):
    """A response: its events are numbered, an error event too."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def read(self, event: sse.Event) -> Reading | None:  # noqa: D102
        reading = super().read(event)
        number = reading.body.get("sequence_number") if reading and reading.body else None
        if chunks.is_count(number):
            self._next = number + 1
        return reading

    def error_event(self, error: BaseException) -> bytes:
        """OpenAI's `error` event, and the `error` object by which OpenAI's clients know that they have to raise."""
        told = orjson.loads(event_data(error))["error"]
        flat = {name: told.get(name) for name in ("code", "message", "param")}
        body = {"type": "error", "sequence_number": self._next, **flat, "error": told}
        return sse.encode(orjson.dumps(body), b"error")


class MessagesAnswer(TypedAnswer):
    """A message of Anthropic's API."""

    def error_event(self, error: BaseException) -> bytes:
        """Anthropic's `error` event."""
        return sse.encode(event_data(error, ANTHROPIC), b"error")


DIALECTS: Mapping[str, Callable[[], Answer]] = {
    "openai": ChunkedAnswer,
    "responses": ResponsesAnswer,
    "messages": MessagesAnswer,
}
