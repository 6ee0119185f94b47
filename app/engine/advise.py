"""Which engines fit the cards, and how many sequences of which length, before anything is started; pure.

What a card has for the KV cache: its memory x the share vLLM plans with, less the weights, less what computing takes.
The last is an assumption (`OVERHEAD`): vLLM measures it when it starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.engine.kv import CONCURRENT_STEPS, Cache, kv_element
from app.engine.model import Found
from app.engine.shape import card_bytes
from config.profiles import Profile

GIB = 1024**3
OVERHEAD = 2 * GIB
"""Bytes a card needs beside weights and cache: activations of a step, CUDA graphs, the CUDA context, NCCL. Assumed."""

LENGTHS = (1024, 4096, 8192, 16384, 32768, 131072)
"""Lengths for which sequences are counted, in tokens."""

DECODING = 2
"""Tokens in flight of a sequence that is only generating: one a step."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One profile on some cards.

    Args:
        profile: its name.
        cards: that share the model.
        share: of each card's memory that it plans with.
        weights: bytes on each card.
        pool: bytes for the KV cache on each card; negative: the weights do not fit.
        token_bytes: bytes a token takes on each card in layers of full attention.
        max_len: the longest sequence.
        wanted: sequences in a step.
        promised: the "maximum concurrency" that vLLM reports for `max_len`: as if each were being prefilled.
        generating: sequences of `max_len` that have room while they generate.
        running: length -> sequences of it that have room while they generate.
    """

    profile: str
    cards: int
    share: float
    weights: int
    pool: int
    token_bytes: int
    max_len: int
    wanted: int
    promised: float
    generating: int
    running: dict[int, int]

    @property
    def starts(self) -> bool:
        """Whether vLLM would start: room for the weights and for one longest sequence."""
        return self.promised >= 1


@dataclass(frozen=True, slots=True)
class Topology:
    """Engines side by side on one machine.

    Args:
        name: `split` or `single`, as in the settings.
        text: what it means.
        fits: one an engine.
    """

    name: str
    text: str
    fits: list[Fit]

    @property
    def starts(self) -> bool:
        """Whether every engine would start."""
        return all(fit.starts for fit in self.fits)


def fit(
    profile: Profile,
    found: Found,
    memory: int,
    cards: int,
    *,
    share: float | None = None,
    max_len: int | None = None,
    overhead: int = OVERHEAD,
) -> Fit:
    """A profile on `cards` cards of `memory` bytes each; `share` and `max_len` replace the profile's own."""
    part = share if share is not None else float(_number(profile, "gpu-memory-utilization", 0.92))
    length = min(max_len or int(_number(profile, "max-model-len", 8192)), found.shape.max_positions)
    dtype = str(profile.flags["kv-cache-dtype"].value) if "kv-cache-dtype" in profile.flags else "auto"
    block = int(_number(profile, "block-size", 16))
    cache = Cache(found.shape, cards, block, kv_element(dtype, found.shape))
    weights = card_bytes(found.shape, found.checkpoint, cards)
    pool = int(memory * part) - weights - overhead
    in_flight = CONCURRENT_STEPS * int(_number(profile, "max-num-batched-tokens", 2048))
    return Fit(
        profile=profile.name,
        cards=cards,
        share=part,
        weights=weights,
        pool=pool,
        token_bytes=cache.token_bytes,
        max_len=length,
        wanted=int(_number(profile, "max-num-seqs", 256)),
        promised=cache.sequences(pool, length, in_flight),
        generating=int(cache.sequences(pool, length, DECODING)),
        running={at: int(cache.sequences(pool, at, DECODING)) for at in LENGTHS if at <= found.shape.max_positions},
    )


def topologies(
    profiles: Mapping[str, Profile], found: Found, memory: Sequence[int], *, max_len: int | None, overhead: int
) -> list[Topology]:
    """The ways to serve both lanes on cards of so many bytes; engines that share cards plan with the smallest."""
    least, count = min(memory), len(memory)

    def engine(name: str, cards: int, share: float | None = None) -> Fit:
        return fit(profiles[name], found, least, cards, share=share, max_len=max_len, overhead=overhead)

    ranks = [cards for cards in range(count, 0, -1) if found.shape.heads % cards == 0]
    ways = []
    if count > 1:
        half = next(cards for cards in ranks if cards <= count // 2)
        ways.append(
            Topology(
                "split",
                "an engine a lane, each on cards of its own",
                [engine("low-latency", half), engine("batch", half)],
            )
        )
    ways.append(Topology("single", "one engine for both lanes, on all cards", [engine("single", ranks[0])]))
    shared = [engine("low-latency", ranks[0], 0.45), engine("batch", ranks[0], 0.47)]
    ways.append(Topology("split", "an engine a lane, both on the same cards: the weights twice", shared))
    return ways


def every(
    profiles: Mapping[str, Profile], found: Found, memory: Sequence[int], *, max_len: int | None, overhead: int
) -> list[Fit]:
    """Each GPU profile on as many of the cards as it asks for, fewer where there are fewer."""
    fits = []
    for profile in profiles.values():
        cards = min(int(_number(profile, "tensor-parallel-size", 1)), len(memory))
        if profile.hardware == "gpu" and found.shape.heads % cards == 0:
            fits.append(fit(profile, found, min(memory), cards, max_len=max_len, overhead=overhead))
    return fits


def _number(profile: Profile, flag: str, default: float) -> float:
    advice = profile.flags.get(flag)
    return float(advice.text()) if advice is not None else default
