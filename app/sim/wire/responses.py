"""Bodies of /v1/responses: numbered events, item after item, each of which is told whole once more when it is done."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.sim.asked import Asked
from app.sim.emission import Delta

Json = dict[str, Any]
_PREFIX = {"reasoning": "rs", "message": "msg", "function_call": "fc"}


@dataclass(slots=True)
class _Item:
    """An item of the output while it is told."""

    kind: str
    id: str
    name: str
    text: str = ""

    def shown(self, status: str) -> Json:
        done = status == "completed"
        if self.kind == "reasoning":
            content = [self.part()] if done else None
            head = {"id": self.id, "summary": [], "type": "reasoning", "content": content}
            return head | {"encrypted_content": None, "status": status}
        if self.kind == "message":
            content = [self.part()] if done else []
            return {
                "id": self.id,
                "content": content,
                "role": "assistant",
                "status": status,
                "type": "message",
                "phase": None,
            }
        head = {"arguments": self.text, "call_id": self.id.replace("fc_", "call_"), "name": self.name}
        return head | {"type": "function_call", "id": self.id, "status": status}

    def part(self) -> Json:
        if self.kind == "reasoning":
            return {"text": self.text, "type": "reasoning_text"}
        return {"annotations": [], "text": self.text, "type": "output_text", "logprobs": None}


class ResponsesWire:
    """Writes one answer.

    Args:
        asked: the request.
        answer_id: `resp_...`.
        created: seconds of the epoch.
    """

    def __init__(self, asked: Asked, answer_id: str, created: int) -> None:
        self._asked = asked
        self._id = answer_id
        self._created = created
        self._next = 0
        self._output: list[Json] = []
        self._item: _Item | None = None
        self._finish = "stop"

    def announcement(self) -> list[Json]:
        """The events that come before any token."""
        now = self.response("in_progress", None)
        return [self._event(f"response.{name}", {"response": now}) for name in ("created", "in_progress")]

    def opening(self) -> list[Json]:
        """Nothing more is said before the first item."""
        return []

    def says(self, delta: Delta) -> list[Json]:
        """The events of a delta."""
        events: list[Json] = []
        if delta.reasoning:
            events += self._piece("reasoning", "response.reasoning_text", delta.reasoning)
        if delta.text:
            events += self._piece("message", "response.output_text", delta.text)
        for _, name, arguments in delta.calls:
            events += self._call(name, arguments)
        self._finish = delta.finish or self._finish
        return events

    def closing(self, generated: int, reasoned: int | None) -> list[Json]:
        """The end of the last item, and the whole response; vLLM says `completed` of one that was cut off too."""
        events = self._close()
        whole = self.response(self._status(), self._usage(generated, reasoned))
        return [*events, self._event("response.completed", {"response": whole})]

    def whole(self, choices: Sequence[Delta], generated: int, reasoned: int | None) -> Json:
        """The body of an answer that is not streamed."""
        for delta in choices:
            self.says(delta)
        self._close()
        return self.response(self._status(), self._usage(generated, reasoned))

    def response(self, status: str, usage: Json | None) -> Json:
        """The response as it is now."""
        fields, cut = self._asked.fields, status == "incomplete"
        return {
            "id": self._id,
            "created_at": self._created,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": fields.get("instructions"),
            "metadata": fields.get("metadata"),
            "model": self._asked.model,
            "object": "response",
            "output": list(self._output),
            "parallel_tool_calls": True,
            "temperature": fields.get("temperature", 1.0),
            "tool_choice": fields.get("tool_choice", "none"),
            "tools": fields.get("tools") or [],
            "top_p": fields.get("top_p", 1.0),
            "background": bool(fields.get("background")),
            "max_output_tokens": self._asked.limit,
            "max_tool_calls": None,
            "previous_response_id": fields.get("previous_response_id"),
            "prompt": None,
            "reasoning": fields.get("reasoning"),
            "service_tier": "auto",
            "status": status,
            "text": fields.get("text"),
            "top_logprobs": None,
            "truncation": "disabled",
            "usage": usage,
            "user": fields.get("user"),
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "input_messages": None,
            "output_messages": None,
        }

    def _status(self) -> str:
        return {"length": "incomplete", "abort": "cancelled"}.get(self._finish, "completed")

    def _usage(self, generated: int, reasoned: int | None) -> Json:
        prompt = self._asked.prompt_tokens
        return {
            "input_tokens": prompt,
            "input_tokens_details": {
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": generated,
            "output_tokens_details": {
                "reasoning_tokens": reasoned or 0,
                "tool_output_tokens": 0,
                "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": prompt + generated,
        }

    def _event(self, kind: str, body: Json) -> Json:
        event = body | {"sequence_number": self._next, "type": kind}
        self._next += 1
        return dict(sorted(event.items()))

    def _begin(self, kind: str, name: str = "") -> list[Json]:
        events = self._close()
        digest = hashlib.blake2b(f"{self._id}/{len(self._output)}".encode(), digest_size=8).hexdigest()
        item = self._item = _Item(kind, f"{_PREFIX[kind]}_{digest}", name)
        added = {"item": item.shown("in_progress"), "output_index": len(self._output)}
        events.append(self._event("response.output_item.added", added))
        if kind != "function_call":
            part = item.part() | ({"logprobs": []} if kind == "message" else {})
            events.append(self._event("response.content_part.added", self._where(item) | {"part": part}))
        return events

    def _where(self, item: _Item) -> Json:
        where: Json = {"item_id": item.id, "output_index": len(self._output)}
        return where if item.kind == "function_call" else {"content_index": 0} | where

    def _piece(self, kind: str, event: str, text: str) -> list[Json]:
        events = [] if self._item is not None and self._item.kind == kind else self._begin(kind)
        return events + self._delta(event, text)

    def _delta(self, event: str, text: str) -> list[Json]:
        item = self._item
        if item is None:
            return []
        item.text += text
        more: Json = {"logprobs": []} if item.kind == "message" else {}
        return [self._event(f"{event}.delta", self._where(item) | {"delta": text} | more)]

    def _call(self, name: str | None, arguments: str) -> list[Json]:
        events = [] if name is None else self._begin("function_call", name)
        return events + (self._delta("response.function_call_arguments", arguments) if arguments else [])

    def _close(self) -> list[Json]:
        """The item that is open is told whole."""
        item, self._item = self._item, None
        if item is None:
            return []
        where = self._where(item)
        if item.kind == "function_call":
            done = where | {"arguments": item.text, "name": item.name}
            events = [self._event("response.function_call_arguments.done", done)]
        else:
            thought = item.kind == "reasoning"
            name = "reasoning_text" if thought else "output_text"
            more: Json = {} if thought else {"logprobs": []}
            events = [
                self._event(f"response.{name}.done", where | {"text": item.text} | more),
                self._event("response.content_part.done", where | {"part": item.part()}),
            ]
        shown = item.shown("completed")
        told = {"item": shown, "output_index": len(self._output)}
        events.append(self._event("response.output_item.done", told))
        self._output.append(shown)
        return events
