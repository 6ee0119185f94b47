"""Keeps lines that begin alike together, so that the engine's prefix cache serves all but the first of them. Pure.

An engine caches a prompt from its start, in blocks: lines with the same system prompt, tools or document share that
part if they run one after another. The key of a line is a ladder of hashes of longer and longer heads of its prompt:
sorted by it, lines with a longer common head stand closer together. Lines with the same key keep their order.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

RUNGS = (256, 1024, 4096, 16384, 65536)
"""Bytes of the heads that are compared: 256 are about 64 tokens, 4 of vLLM's usual blocks."""

PROMPT_FIELDS = ("tools", "instructions", "messages", "prompt", "input")
"""What a prompt is made of, in the order in which chat templates write it."""

DIGITS = 8
"""Hexadecimal digits a rung: two different heads meet once in four billion, and then only sort badly."""


def prefix_key(body: Mapping[str, Any]) -> str:
    """The key by which lines are sorted.

    Args:
        body: the decoded body of a request.
    """
    prompt = [body[name] for name in PROMPT_FIELDS if body.get(name) is not None]
    text = memoryview(orjson.dumps(prompt))
    return "".join(hashlib.sha256(text[:rung]).hexdigest()[:DIGITS] for rung in RUNGS)
