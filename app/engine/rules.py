"""What vLLM's parser accepts and a start dies of, or does not do what the words say.

Each rule was seen with vLLM 0.32.0 on CPU or read in its source; a rule takes the line and the facts and yields
findings. Pure.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from app.engine.catalogue import Catalogue
from app.engine.finding import Finding, Level
from app.engine.line import spelt
from app.engine.shape import Shape

CHECKPOINT_METHODS = frozenset({"awq", "awq_marlin", "gptq", "gptq_marlin"})
"""Methods that describe how a checkpoint was written; they cannot be asked of another one."""

BLOCK_MULTIPLE = {"cpu": 32, "gpu": 16}
"""What a KV block's tokens must be a multiple of: CPU_ATTN; FLASH_ATTN and TRITON_ATTN (FLASHINFER: 16, 32, 64)."""

COUNT_SUFFIX = {"k": 1000, "m": 10**6, "g": 10**9, "K": 1024, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known besides the line.

    Args:
        hardware: what the engine runs on.
        shape: the model's, where its config.json was found.
    """

    hardware: Literal["cpu", "gpu"]
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """The options of a line by the one spelling that stands for all."""

    values: dict[str, str]
    """Option -> its first value; empty for a switch, which keeps its own spelling (`--no-...`)."""
    catalogue: Catalogue

    @classmethod
    def of(cls, options: Sequence[Sequence[str]], catalogue: Catalogue) -> "Line":
        """The line of options that the parser took; the last of several counts."""
        values: dict[str, str] = {}
        for option in options:
            name, given = spelt(option)
            if name not in catalogue.by_name:
                name = next(iter(catalogue.starting_with(name)), name)
            known = catalogue.by_name.get(name)
            values[known.name if known and not known.switch else name] = given[0] if given else ""
        return cls(values, catalogue)

    def get(self, name: str) -> str | None:
        """The value of an option, whatever spelling it had."""
        option = self.catalogue.by_name.get(name)
        return self.values.get(option.name if option and not option.switch else name)

    def number(self, name: str) -> float | None:
        """The value as a number; None where it is none."""
        text = self.get(name) or ""
        factor = COUNT_SUFFIX.get(text[-1:], 1)
        try:
            return float(text[:-1] if factor > 1 else text) * factor
        except ValueError:
            return None


Rule = Callable[[Line, Facts], Iterator[Finding]]


def broken(line: Line, facts: Facts) -> list[Finding]:
    """What every rule says about the line."""
    return [finding for rule in RULES for finding in rule(line, facts)]


def bounds(line: Line, facts: Facts) -> Iterator[Finding]:
    """Numbers that vLLM's settings refuse after the parser took them."""
    del facts
    for name, low, high in (
        ("--gpu-memory-utilization", 0.0, 1.0),
        ("--stream-interval", 1.0, float("inf")),
        ("--max-num-seqs", 1.0, float("inf")),
        ("--max-num-batched-tokens", 1.0, float("inf")),
        ("--tensor-parallel-size", 1.0, float("inf")),
    ):
        if (value := line.number(name)) is not None and not low <= value <= high:
            limit = f"at least {low:g}" if high == float("inf") else f"{low:g} to {high:g}"
            yield Finding(Level.ERROR, f"{name} {line.get(name)}", f"must be {limit}")


def optimization(line: Line, facts: Facts) -> Iterator[Finding]:
    """`-O.mode=3` and other old forms: the parser takes any text."""
    del facts
    level = line.get("--optimization-level")
    if level is not None and level not in {"0", "1", "2", "3"}:
        yield Finding(Level.ERROR, f"-O{level}", "must be 0, 1, 2 or 3", "-O3, or -cc.mode=3 for one key")


def block_size(line: Line, facts: Facts) -> Iterator[Finding]:
    """The parser takes any block size; the attention backends do not."""
    size = line.number("--block-size")
    multiple = BLOCK_MULTIPLE[facts.hardware]
    if size is not None and size % multiple:
        text = f"no attention backend for {facts.hardware} takes it: multiples of {multiple}"
        yield Finding(Level.ERROR, f"--block-size {size:g}", text, f"--block-size {max(32, multiple)}")


def blocks_override(line: Line, facts: Facts) -> Iterator[Finding]:
    """A number of blocks that is not computed from memory."""
    if line.get("--num-gpu-blocks-override") is not None:
        text = "replaces what vLLM computes from free memory: too many and the start dies, too few and memory is wasted"
        if facts.hardware == "cpu":
            text += "; 12,000 blocks asked for 35 GB here, since a block has 128 tokens on CPU"
        yield Finding(Level.WARNING, "--num-gpu-blocks-override", text, "--gpu-memory-utilization")


def cpu(line: Line, facts: Facts) -> Iterator[Finding]:
    """What the CPU backend cannot do."""
    if facts.hardware != "cpu":
        return
    if line.get("--kv-offloading-size") is not None:
        yield Finding(Level.ERROR, "--kv-offloading-size", "only on CUDA and XPU: the start dies on CPU")
    if line.get("--quantization") == "mxfp4":
        yield Finding(Level.ERROR, "--quantization mxfp4", "there is no MXFP4 kernel for linear layers on CPU")
    if line.get("--async-scheduling") is not None:
        yield Finding(Level.NOTE, "--async-scheduling", "stays off on CPU")
    if line.get("--gpu-memory-utilization") is not None:
        text = "the KV cache of the CPU backend is set by VLLM_CPU_KVCACHE_SPACE (GiB)"
        yield Finding(Level.NOTE, "--gpu-memory-utilization", text)


def offloading(line: Line, facts: Facts) -> Iterator[Finding]:
    """LMCache is a package of its own."""
    del facts
    if line.get("--kv-offloading-backend") == "lmcache":
        yield Finding(Level.NOTE, "--kv-offloading-backend lmcache", "needs the package lmcache beside vLLM")


def quantization(line: Line, facts: Facts) -> Iterator[Finding]:
    """A method has to be the one of the checkpoint."""
    method = line.get("--quantization")
    if method in CHECKPOINT_METHODS:
        has = facts.shape.quantization if facts.shape else None
        if facts.shape and not str(has).startswith(str(method).removesuffix("_marlin")):
            text = f"the checkpoint is {has or 'not quantized'}: a method cannot be put on it by a flag"
            yield Finding(Level.ERROR, f"--quantization {method}", text, "leave it out: vLLM reads config.json")
        elif not facts.shape:
            text = "only for a checkpoint that was written with it; gpt-oss is MXFP4 already"
            yield Finding(Level.WARNING, f"--quantization {method}", text)
    if method == "fp8":
        yield Finding(Level.WARNING, "--quantization fp8", "deprecated for weights that are not fp8", "fp8_per_tensor")


def fits_model(line: Line, facts: Facts) -> Iterator[Finding]:
    """What the model's config.json forbids."""
    if (shape := facts.shape) is None:
        return
    ranks = line.number("--tensor-parallel-size")
    if ranks and ranks > 1 and shape.heads % ranks:
        text = f"the model's {shape.heads} attention heads cannot be shared by {ranks:g}"
        yield Finding(Level.ERROR, f"--tensor-parallel-size {ranks:g}", text)
    length = line.number("--max-model-len")
    if length and length > shape.max_positions:
        text = f"the model ends at {shape.max_positions} tokens"
        yield Finding(Level.ERROR, f"--max-model-len {length:g}", text, f"--max-model-len {shape.max_positions}")
    if line.get("--enable-expert-parallel") is not None and not shape.experts:
        yield Finding(Level.ERROR, "--enable-expert-parallel", "the model has no experts")


def weights(line: Line, facts: Facts) -> Iterator[Finding]:
    """Formats of weights that few models still have."""
    del facts
    if line.get("--load-format") in {"pt", "npcache"}:
        text = "only for weights in .bin files; with safetensors alone the start dies"
        yield Finding(Level.WARNING, f"--load-format {line.get('--load-format')}", text, "--load-format auto")


def prefill(line: Line, facts: Facts) -> Iterator[Finding]:
    """Chunked prefill is what keeps streams even."""
    del facts
    if line.get("--no-enable-chunked-prefill") is not None:
        yield Finding(Level.WARNING, "--no-enable-chunked-prefill", "not supported for most models: may crash")


def generation(line: Line, facts: Facts) -> Iterator[Finding]:
    """Greedy defaults meet requests for several answers."""
    del facts
    text = line.get("--override-generation-config") or "{}"
    try:
        tree = json.loads(text)
    except ValueError:
        return
    if isinstance(tree, dict) and tree.get("temperature") == 0:
        text = "temperature 0 by default: a request with n > 1 that sends none gets a 400"
        yield Finding(Level.NOTE, "--override-generation-config", text)


RULES: tuple[Rule, ...] = (
    bounds,
    optimization,
    block_size,
    blocks_override,
    cpu,
    offloading,
    quantization,
    fits_model,
    weights,
    prefill,
    generation,
)
"""The registry: a new rule is a function and a line here."""
