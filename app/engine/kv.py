"""The KV cache of a sequence, counted as vLLM counts it; pure.

vLLM holds the cache in blocks of one pool. Layers of one kind form groups of equal size (gpt-oss-20b: 12 layers of
full attention, 12 with a window of 128), a block holds `block_size` tokens of one group's layers, and a sequence takes
blocks for each group: full attention for every token, a window for its tokens and those in flight. Source: vLLM 0.32,
`kv_cache_interface.py` and `kv_cache_utils.py`; tests compare with vLLM itself.
"""

from dataclasses import dataclass

from app.engine.shape import Shape

EVEN = 1.5
"""Kinds with layer counts closer than this ratio form groups of the larger count, padded."""

CONCURRENT_STEPS = 2
"""Steps in flight at once: asynchronous scheduling, vLLM's default on GPUs."""

KV_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def kv_element(dtype: str, shape: Shape) -> int:
    """Bytes of one number of the cache for a value of --kv-cache-dtype; quantized kinds of one byte or less count 1."""
    return shape.element if dtype == "auto" else KV_BYTES.get(dtype, 1)


@dataclass(frozen=True, slots=True)
class Cache:
    """The pool of one card.

    Args:
        shape: the model's.
        cards: that share the model.
        block_size: tokens a block.
        element: bytes of a number.
    """

    shape: Shape
    cards: int
    block_size: int
    element: int

    @property
    def group_layers(self) -> int:
        """Layers of one group."""
        kinds = [count for count in (self.shape.full_layers, self.shape.sliding_layers) if count]
        return max(kinds) if max(kinds) < min(kinds) * EVEN else min(kinds)

    @property
    def token_bytes(self) -> int:
        """Bytes a token takes on this card, in the layers of one group: keys and values."""
        kv_heads = max(1, self.shape.kv_heads // self.cards)
        return self.group_layers * 2 * kv_heads * self.shape.head_dim * self.element

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.token_bytes * self.block_size

    def blocks(self, length: int, in_flight: int) -> int:
        """Blocks of a sequence.

        Args:
            length: of the sequence in tokens.
            in_flight: tokens that are scheduled and not yet settled; a window keeps them too.
        """
        full = -(-length // self.block_size)
        held = min(self.shape.window - 1 + in_flight, length)
        window = -(-held // self.block_size) + 1
        return self._groups(self.shape.full_layers) * full + self._groups(self.shape.sliding_layers) * window

    def sequences(self, pool: int, length: int, in_flight: int) -> float:
        """Sequences of a length for which a pool of so many bytes has room."""
        return (max(pool, 0) // self.block_bytes) / self.blocks(length, in_flight)

    def _groups(self, layers: int) -> int:
        return -(-layers // self.group_layers)
