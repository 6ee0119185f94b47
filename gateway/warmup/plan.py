"""Which bursts warm an engine. Pure.

Batch shapes are met by bursts alone: single requests do not compile what 16 at once need. So concurrency grows as
1, 2, 4, ... up to what the engine will see, for one length of prompts after the other, the short ones first: they cost
least and reach every batch of the decode. Long prompts reach the shapes of the prefill, for which a few of them are
enough: an engine cuts them into steps of a fixed size anyway, so that a burst is kept below a number of tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """A burst: so many requests at once, each with a prompt of so many tokens."""

    concurrency: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is warmed.

    Attributes:
        concurrency: requests of the largest burst, at least 1.
        prompt_tokens: lengths of prompts.
        longest: one more length is what the engine takes at most, but not above this; 0: no such length.
        answer_tokens: tokens that each request asks for.
        burst_tokens: tokens of the prompts of one burst at most; a burst of one request is always allowed.
    """

    concurrency: int = 32
    prompt_tokens: tuple[int, ...] = (16, 512)
    longest: int = 8192
    answer_tokens: int = 8
    burst_tokens: int = 32768


def sizes(extent: Extent, max_model_len: int | None) -> tuple[Size, ...]:
    """The bursts in their order.

    Args:
        extent: what is wanted.
        max_model_len: tokens of prompt and answer together that the engine takes; None: not known, so that there is no
            length but those that are named.
    """
    return tuple(
        Size(concurrency, length)
        for length in _lengths(extent, max_model_len)
        for concurrency in _doubling(extent.concurrency)
        if concurrency == 1 or concurrency * length <= extent.burst_tokens
    )


def _lengths(extent: Extent, max_model_len: int | None) -> list[int]:
    wanted = list(extent.prompt_tokens)
    if max_model_len is not None:
        room = max(1, max_model_len - extent.answer_tokens)
        wanted = [min(length, room) for length in (*wanted, *([extent.longest] if extent.longest else []))]
    return sorted(set(wanted))


def _doubling(most: int) -> Iterator[int]:
    """1, 2, 4, ... below `most`, and `most` itself."""
    size = 1
    while size < most:
        yield size
        size *= 2
    yield max(1, most)
