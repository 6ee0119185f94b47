"""Bodies of /v1/messages: a block for thoughts, for text, for each call of a tool."""

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from app.sim.asked import Asked
from app.sim.emission import Delta

Json = dict[str, Any]
_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}


class MessagesWire:
    """Writes one answer.

    Args:
        asked: the request.
        answer_id: `chatcmpl-...`, as vLLM names messages too.
        created: seconds of the epoch; messages do not say it.
    """

    def __init__(self, asked: Asked, answer_id: str, created: int) -> None:
        self._asked = asked
        self._id = answer_id
        self._blocks: list[Json] = []
        self._open = False
        self._text = ""
        self._reason = "end_turn"
        self._stop: str | None = None

    def announcement(self) -> list[Json]:
        """Nothing is said before the first token."""
        return []

    def opening(self) -> list[Json]:
        """The message without anything in it."""
        message = self._head() | {
            "content": [],
            "model": self._asked.model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self._asked.prompt_tokens, "output_tokens": 0},
        }
        return [{"type": "message_start", "message": message}]

    def says(self, delta: Delta) -> list[Json]:
        """The events of a delta."""
        events: list[Json] = []
        if delta.reasoning:
            events += self._piece("thinking", "thinking_delta", "thinking", delta.reasoning)
        if delta.text:
            events += self._piece("text", "text_delta", "text", delta.text)
        for _, name, arguments in delta.calls:
            if name is not None:
                events += self._begin({"type": "tool_use", "id": self._call_id(), "name": name, "input": {}})
            if arguments:
                events.append(self._delta("input_json_delta", "partial_json", arguments))
        if delta.finish:
            self._stop = delta.stop_reason if isinstance(delta.stop_reason, str) else None
            self._reason = "stop_sequence" if self._stop else _REASONS.get(delta.finish, "end_turn")
        return events

    def closing(self, generated: int, reasoned: int | None) -> list[Json]:
        """The end of the last block, why it ended, and the end."""
        delta = {"stop_reason": self._reason, "stop_sequence": self._stop}
        last = {"type": "message_delta", "delta": delta, "usage": self._usage(generated)}
        return [*self._close(), last, {"type": "message_stop"}]

    def whole(self, choices: Sequence[Delta], generated: int, reasoned: int | None) -> Json:
        """The body of an answer that is not streamed."""
        for delta in choices:
            self.says(delta)
        self._close()
        rest: Json = {"content": self._blocks, "model": self._asked.model, "stop_reason": self._reason}
        if self._stop:
            rest["stop_sequence"] = self._stop
        return self._head() | rest | {"usage": self._usage(generated)}

    def _head(self) -> Json:
        return {"id": self._id, "type": "message", "role": "assistant"}

    def _usage(self, generated: int) -> Json:
        usage = {"input_tokens": self._asked.prompt_tokens, "output_tokens": generated}
        return usage | {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}

    def _call_id(self) -> str:
        digest = hashlib.blake2b(f"{self._id}/{len(self._blocks)}".encode(), digest_size=8)
        return f"chatcmpl-tool-{digest.hexdigest()}"

    def _piece(self, kind: str, delta: str, field: str, text: str) -> list[Json]:
        same = self._open and self._blocks[-1]["type"] == kind
        events = [] if same else self._begin({"type": kind, field: ""})
        return [*events, self._delta(delta, field, text)]

    def _begin(self, block: Json) -> list[Json]:
        events = self._close()
        self._blocks.append(block)
        self._open, self._text = True, ""
        return [*events, {"type": "content_block_start", "content_block": dict(block), "index": len(self._blocks) - 1}]

    def _delta(self, kind: str, field: str, text: str) -> Json:
        self._text += text
        return self._block_delta({"type": kind, field: text})

    def _block_delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "delta": delta, "index": len(self._blocks) - 1}

    def _close(self) -> list[Json]:
        """The block that is open is finished."""
        if not self._open:
            return []
        self._open = False
        block, events = self._blocks[-1], []
        if block["type"] == "tool_use":
            block["input"] = orjson.loads(self._text or "{}")
        else:
            block[block["type"]] = self._text
        if block["type"] == "thinking":
            block["signature"] = hashlib.blake2b(self._text.encode(), digest_size=16).hexdigest()
            events.append(self._block_delta({"type": "signature_delta", "signature": block["signature"]}))
        return [*events, {"type": "content_block_stop", "index": len(self._blocks) - 1}]
