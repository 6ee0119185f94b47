"""A model's shape, from its config.json, and the bytes of its weights; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MXFP4_BYTES = 17 / 32
"""Bytes of an MXFP4 number: four bits, and a byte of scale for 32 of them."""

DTYPE_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
QUANTIZED_BYTES = {"awq": 0.53, "gptq": 0.53, "fp8": 1.0, "compressed-tensors": 0.53, "bitsandbytes": 0.53}
"""Bytes of a weight of a linear layer, scales included; only used where no index names the true size."""

MARLIN_TILES = (256, 128)
"""What hidden and intermediate sizes of MXFP4 experts are rounded up to on cards before Hopper (Marlin kernels)."""


class NoModel(Exception):
    """There is no config.json, or it is not one of a model that can be computed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What memory depends on. Sizes are numbers of elements."""

    architecture: str
    layers: int
    sliding_layers: int
    window: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    experts: int
    vocabulary: int
    tied: bool
    biased: bool
    sinks: bool
    max_positions: int
    element: int
    quantization: str | None

    @property
    def full_layers(self) -> int:
        """Layers that attend to everything."""
        return self.layers - self.sliding_layers


def from_config(config: Mapping[str, Any]) -> Shape:
    """The shape in a config.json.

    Raises:
        NoModel: it lacks what every decoder has.
    """
    tree = config.get("text_config") or config
    try:
        layers, heads, hidden = tree["num_hidden_layers"], tree["num_attention_heads"], tree["hidden_size"]
        vocabulary, intermediate = tree["vocab_size"], _intermediate(tree)
    except KeyError as error:
        raise NoModel(f"config.json has no {error.args[0]}") from None
    window = int(tree.get("sliding_window") or 0)
    gpt_oss = tree.get("model_type") == "gpt_oss"
    method = (config.get("quantization_config") or {}).get("quant_method")
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    return Shape(
        architecture=next(iter(config.get("architectures") or []), str(tree.get("model_type"))),
        layers=layers,
        sliding_layers=_sliding_layers(tree, layers, window),
        window=window,
        hidden=hidden,
        heads=heads,
        kv_heads=tree.get("num_key_value_heads") or heads,
        head_dim=tree.get("head_dim") or hidden // heads,
        intermediate=intermediate,
        experts=tree.get("num_local_experts") or tree.get("num_experts") or 0,
        vocabulary=vocabulary,
        tied=bool(tree.get("tie_word_embeddings")),
        biased=bool(tree.get("attention_bias")),
        sinks=gpt_oss,
        max_positions=tree.get("max_position_embeddings") or 2048,
        element=DTYPE_BYTES.get(dtype.removeprefix("torch."), 2),
        quantization=method,
    )


def _intermediate(tree: Mapping[str, Any]) -> int:
    size: int = tree.get("moe_intermediate_size") or tree["intermediate_size"]
    return size


def _sliding_layers(tree: Mapping[str, Any], layers: int, window: int) -> int:
    """How many layers attend to a window alone: named one by one, or all where there is a window that is used."""
    if types := tree.get("layer_types"):
        return sum(kind == "sliding_attention" for kind in types)
    if not window or tree.get("use_sliding_window") is False:
        return 0
    return (layers + 1) // 2 if tree.get("model_type") == "gpt_oss" else layers


def expert_bytes(shape: Shape, cards: int = 1, tiles: tuple[int, int] = (1, 1)) -> int:
    """Bytes that all experts take on each of `cards`, with sizes rounded up to `tiles` (hidden, intermediate)."""
    hidden = _round_up(shape.hidden, tiles[0])
    inner = _round_up(-(-shape.intermediate // cards), tiles[1])
    matrices = 3 * inner * hidden * _linear_bytes(shape)
    biases = (2 * inner + hidden) * shape.element if shape.sinks else 0
    return int(shape.layers * shape.experts * (matrices + biases))


def checkpoint_bytes(shape: Shape) -> int:
    """Bytes of the checkpoint; exact for gpt-oss (13,761,264,768 of the 20b) and for plain bfloat16 decoders."""
    element = shape.element
    linear = element if shape.quantization == "mxfp4" else _linear_bytes(shape)
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = shape.hidden * (2 * queries + 2 * keys) * linear
    attention += (queries + 2 * keys + shape.hidden) * element if shape.biased else 0
    attention += shape.heads * element if shape.sinks else 0
    norms = 2 * shape.hidden * element
    if shape.experts:
        router = shape.experts * (shape.hidden + (1 if shape.sinks else 0)) * element
        inner = router + expert_bytes(shape) / shape.layers
    else:
        inner = 3 * shape.hidden * shape.intermediate * linear
    embeddings = shape.vocabulary * shape.hidden * element * (1 if shape.tied else 2)
    return int(shape.layers * (attention + norms + inner) + embeddings + shape.hidden * element)


def card_bytes(shape: Shape, checkpoint: int, cards: int) -> int:
    """Bytes of weights on each of `cards` of one engine, padding included.

    Checked against what vLLM reports for gpt-oss-120b with Marlin kernels on one card: 65.97 GiB.
    """
    if shape.quantization != "mxfp4":
        return -(-checkpoint // cards)
    rest = checkpoint - expert_bytes(shape)
    return rest // cards + expert_bytes(shape, cards, MARLIN_TILES)


def _linear_bytes(shape: Shape) -> float:
    if shape.quantization == "mxfp4":
        return MXFP4_BYTES
    return QUANTIZED_BYTES.get(shape.quantization or "", float(shape.element))


def _round_up(size: int, tile: int) -> int:
    return -(-size // tile) * tile
