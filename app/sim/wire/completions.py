"""Bodies of /v1/completions."""

from collections.abc import Sequence
from typing import Any

from app.sim.asked import Asked
from app.sim.emission import Delta
from app.sim.vocabulary import Token, decode
from app.sim.wire.logprobs import completions_logprobs
from app.sim.wire.usage import FINGERPRINT, stream_usage, whole_usage


class CompletionsWire:
    """Writes one answer.

    Args:
        asked: the request.
        answer_id: `cmpl-...`.
        created: seconds of the epoch.
    """

    def __init__(self, asked: Asked, answer_id: str, created: int) -> None:
        self._asked = asked
        self._id = answer_id
        self._created = created
        self._offsets: dict[int, int] = {}

    def _head(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": self._asked.model,
        }

    def opening(self, index: int) -> None:
        """There is no role chunk here."""

    def says(self, delta: Delta) -> bool:
        """Every delta is an event, also one without text."""
        return True

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """A chunk of text, with the finish when it is the last."""
        asked = self._asked
        first = delta.index not in self._offsets
        prompt = asked.prompts[delta.index // asked.n]
        choice = {
            "index": delta.index,
            "text": self._text(delta, first),
            "logprobs": self._logprobs(delta, first),
            "finish_reason": delta.finish,
            "stop_reason": delta.stop_reason,
            "prompt_token_ids": list(prompt) if first and (asked.return_token_ids or asked.echo) else None,
            "token_ids": [token.id for token in delta.tokens] if asked.return_token_ids else None,
        }
        chunk = self._head()
        chunk["choices"] = [choice]
        if asked.continuous_usage:
            chunk["usage"] = stream_usage(len(prompt), delta.generated)
        if delta.finish and not asked.include_usage:
            chunk["system_fingerprint"] = FINGERPRINT
        return chunk

    def _text(self, delta: Delta, first: bool) -> str:
        echo = self._asked.echo[delta.index // self._asked.n] if first and self._asked.echo else ""
        return echo + delta.text

    def _logprobs(self, delta: Delta, first: bool) -> dict[str, Any] | None:
        asked, offset = self._asked, self._offsets.get(delta.index, 0)
        tokens = delta.tokens
        if first and asked.echo:
            tokens = [_prompt_token(i) for i in asked.prompts[delta.index // asked.n]] + tokens
        self._offsets[delta.index] = offset + sum(len(token.text) for token in tokens)
        if asked.logprobs is None:
            return None
        arrays = completions_logprobs(tokens, asked.logprobs, asked.tokens_as_ids, offset)
        if first and asked.echo:
            arrays["token_logprobs"][0] = arrays["top_logprobs"][0] = None
        return arrays

    def usage(self, generated: int, reasoned: int | None) -> dict[str, Any]:
        """The usage chunk: the sum over all choices."""
        usage = stream_usage(self._asked.prompt_tokens, generated)
        usage["prompt_tokens_details"] = {"cached_tokens": 0}
        return self._head() | {"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}

    def whole(self, choices: Sequence[Delta], generated: int, reasoned: int | None) -> dict[str, Any]:
        """The body of an answer that is not streamed; each choice is one delta that holds all of it."""
        return self._head() | {
            "choices": [self._whole_choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": whole_usage(self._asked.prompt_tokens, generated, None, reasoned),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _whole_choice(self, delta: Delta) -> dict[str, Any]:
        asked = self._asked
        logprobs = self._logprobs(delta, first=True)
        prompt = asked.prompts[delta.index // asked.n]
        return {
            "index": delta.index,
            "text": self._text(delta, first=True),
            "logprobs": logprobs,
            "finish_reason": delta.finish,
            "stop_reason": delta.stop_reason,
            "token_ids": [token.id for token in delta.tokens] if asked.return_token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": list(prompt) if asked.return_token_ids else None,
            "routed_experts": None,
        }


def _prompt_token(token_id: int) -> Token:
    text = decode(token_id) or ""
    return Token(token_id, text, shown=text)
