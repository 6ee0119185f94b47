"""Logprobs that look like a model's: the chosen token first, the alternatives less and less likely."""

from collections.abc import Sequence
from typing import Any

from app.sim.vocabulary import Token, decode


def logprob(token_id: int) -> float:
    """A value of -0.01 to -0.97, always the same for the same token."""
    return -(token_id % 97 + 1) / 100


def _alternatives(token: Token, count: int) -> list[tuple[int, str, float]]:
    """The token itself and the `count - 1` next best."""
    best = [(token.id, token.shown, logprob(token.id))]
    others = (1000 + (token.id + step) % 100 for step in range(1, 64))
    best += [(i, decode(i) or "", logprob(token.id) - 1.5 * (k + 1)) for k, i in enumerate(others) if i != token.id]
    return best[:count]


def _entry(token_id: int, text: str, value: float, as_ids: bool, *, top: bool) -> dict[str, Any]:
    name = f"token_id:{token_id}" if as_ids else text
    return {"token": name, "logprob": value, "bytes": list((name if top else text).encode())}


def chat_logprobs(tokens: Sequence[Token], count: int, as_ids: bool) -> dict[str, Any]:
    """`logprobs` of a chat choice; a part of a character shows neither text nor bytes."""
    return {
        "content": [
            _entry(token.id, token.shown, logprob(token.id), as_ids, top=False)
            | {"top_logprobs": [_entry(*one, as_ids, top=True) for one in _alternatives(token, count)] if count else []}
            for token in tokens
        ]
    }


def completions_logprobs(tokens: Sequence[Token], count: int, as_ids: bool, offset: int) -> dict[str, Any]:
    """`logprobs` of a completions choice: four parallel arrays; offsets count on from `offset`."""
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.text)
    return {
        "text_offset": offsets,
        "token_logprobs": [logprob(token.id) for token in tokens],
        "tokens": [_name(token.id, token.shown, as_ids) for token in tokens],
        "top_logprobs": [
            {_name(i, text, as_ids): value for i, text, value in _alternatives(token, max(count, 1))}
            for token in tokens
        ],
    }


def _name(token_id: int, text: str, as_ids: bool) -> str:
    return f"token_id:{token_id}" if as_ids else text
