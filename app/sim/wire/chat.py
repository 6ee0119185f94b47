"""Bodies of /v1/chat/completions."""

import hashlib
from collections.abc import Sequence
from typing import Any

from app.sim.asked import Asked
from app.sim.emission import Delta
from app.sim.wire.logprobs import chat_logprobs
from app.sim.wire.usage import FINGERPRINT, stream_usage, whole_usage


class ChatWire:
    """Writes one answer.

    Args:
        asked: the request.
        answer_id: `chatcmpl-...`.
        created: seconds of the epoch.
    """

    def __init__(self, asked: Asked, answer_id: str, created: int) -> None:
        self._asked = asked
        self._id = answer_id
        self._created = created

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._asked.model}

    def opening(self, index: int) -> dict[str, Any]:
        """The role chunk of a choice."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        chunk = self._head("chat.completion.chunk") | {"choices": [choice]}
        if self._asked.continuous_usage:
            chunk["usage"] = self._running_usage(0)
        ids = list(self._asked.prompts[0]) if self._asked.return_token_ids else None
        return chunk | {"prompt_token_ids": ids, "prompt_text": None}

    def says(self, delta: Delta) -> bool:
        """Whether vLLM sends an event for this delta: a token without text has one only with ids or logprobs."""
        asked = self._asked
        return (delta.visible and (asked.show_reasoning or bool(delta.text or delta.calls or delta.finish))) or (
            bool(delta.tokens) and (asked.return_token_ids or asked.logprobs is not None)
        )

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """A chunk of content, reasoning, calls or the finish."""
        asked = self._asked
        logprobs = None
        if asked.logprobs is not None and delta.tokens:
            logprobs = chat_logprobs(delta.tokens, asked.logprobs, asked.tokens_as_ids)
        choice: dict[str, Any] = {
            "index": delta.index,
            "delta": self._delta(delta),
            "logprobs": logprobs,
            "finish_reason": delta.finish,
        }
        if delta.finish:
            choice["stop_reason"] = delta.stop_reason
        choice["token_ids"] = [token.id for token in delta.tokens] if asked.return_token_ids else None
        chunk = self._head("chat.completion.chunk")
        chunk["choices"] = [choice]
        if asked.continuous_usage:
            chunk["usage"] = self._running_usage(delta.generated)
        if delta.finish and not asked.include_usage:
            chunk["system_fingerprint"] = FINGERPRINT
        return chunk

    def _running_usage(self, generated: int) -> dict[str, Any]:
        return stream_usage(self._asked.prompt_tokens, generated) | {"completion_tokens_details": None}

    def _delta(self, delta: Delta) -> dict[str, Any]:
        said: dict[str, Any] = {}
        if delta.text or delta.calls:
            said["content"] = delta.text or None
        if not self._asked.show_reasoning:
            if delta.text:
                said["reasoning"] = None
        elif delta.reasoning:
            said["reasoning"] = delta.reasoning
        if delta.calls:
            said["tool_calls"] = [self._call(delta.index, *call) for call in delta.calls]
        return said

    def _call(self, index: int, call: int, name: str | None, arguments: str) -> dict[str, Any]:
        if name is None:
            return {"index": call, "function": {"arguments": arguments}}
        function = {"name": name} | ({"arguments": arguments} if arguments else {})
        return {"id": self._call_id(index, call), "type": "function", "index": call, "function": function}

    def _call_id(self, index: int, call: int) -> str:
        digest = hashlib.blake2b(f"{self._id}/{index}/{call}".encode(), digest_size=8)
        return f"chatcmpl-tool-{digest.hexdigest()}"

    def usage(self, generated: int, reasoned: int | None) -> dict[str, Any]:
        """The usage chunk: the sum over all choices."""
        usage = stream_usage(self._asked.prompt_tokens, generated)
        usage["prompt_tokens_details"] = {"cached_tokens": 0, "created_cache_tokens": 0}
        if reasoned is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": reasoned}
        return self._head("chat.completion.chunk") | {
            "choices": [],
            "usage": usage,
            "system_fingerprint": FINGERPRINT,
        }

    def whole(self, choices: Sequence[Delta], generated: int, reasoned: int | None) -> dict[str, Any]:
        """The body of an answer that is not streamed; each choice is one delta that holds all of it."""
        return self._head("chat.completion") | {
            "choices": [self._whole_choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": whole_usage(self._asked.prompt_tokens, generated, 0, reasoned),
            "prompt_logprobs": None,
            "prompt_token_ids": list(self._asked.prompts[0]) if self._asked.return_token_ids else None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _whole_choice(self, delta: Delta) -> dict[str, Any]:
        asked = self._asked
        message: dict[str, Any] = {
            "role": "assistant",
            "content": delta.text or (None if delta.reasoning else ""),
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
        }
        if delta.calls:
            message["tool_calls"] = [
                {
                    "id": self._call_id(delta.index, call),
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for call, name, arguments in delta.calls
            ]
        message["reasoning"] = (delta.reasoning or None) if asked.show_reasoning else None
        logprobs = asked.logprobs
        return {
            "index": delta.index,
            "message": message,
            "logprobs": None if logprobs is None else chat_logprobs(delta.tokens, logprobs, asked.tokens_as_ids),
            "finish_reason": delta.finish,
            "stop_reason": delta.stop_reason,
            "token_ids": [token.id for token in delta.tokens] if asked.return_token_ids else None,
            "routed_experts": None,
        }
