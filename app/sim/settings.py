"""How the simulated engine behaves when a request says nothing else."""

from dataclasses import dataclass, fields, replace
from typing import Any

MAX_MS = 3_600_000.0
MAX_TOKENS = 1_000_000
_NUMBERS: dict[str, tuple[float, float]] = {
    "ttft_ms": (0, MAX_MS),
    "itl_ms": (0, MAX_MS),
    "tokens": (0, MAX_TOKENS),
    "jitter": (0, 1),
    "seed": (-(2**63), 2**63),
    "max_num_seqs": (1, MAX_TOKENS),
    "max_model_len": (1, 2**31),
    "stream_interval": (1, MAX_TOKENS),
    "accept_delay_ms": (0, MAX_MS),
    "cold_ms": (0, MAX_MS),
    "max_num_queued": (0, MAX_TOKENS),
    "keep_alive_s": (0, 3600),
    "fault_rate": (0, 1),
}
_NULLABLE = frozenset({"max_num_seqs", "max_num_queued", "fault"})


@dataclass(frozen=True, slots=True)
class SimSettings:
    """Pace, limits and default fault.

    Args:
        model: the id that is served.
        ttft_ms: milliseconds from the start of a request (after any queue) to its first token.
        itl_ms: milliseconds between two tokens of one choice.
        tokens: text tokens of an answer when neither `max_tokens` nor a header says how many; the token that ends
            the answer comes on top, as with a real model.
        jitter: 0..1; each gap is drawn from `gap * (1 - jitter)` to `gap * (1 + jitter)`, seeded.
        seed: of texts, jitter and the choice of who meets a fault.
        max_num_seqs: sequences that run at once; the rest wait, lower `priority` first. None: no limit.
        max_model_len: prompt and answer together, in tokens.
        stream_interval: tokens an event after the first one.
        cold_ms: milliseconds that the first batch of each size costs (sizes are powers of two): kernels are compiled.
        accept_delay_ms: milliseconds for which a new connection is not read.
        max_num_queued: requests that may wait; one more is refused with 503. None: no limit.
        keep_alive_s: seconds after which an idle connection is closed.
        fault: the fault that every generation meets, in the syntax of `x-sim-fault`.
        fault_rate: probability with which `fault` applies.

    Raises:
        ValueError: a value is out of its bounds.
    """

    model: str = "gpt-oss-20b"
    ttft_ms: float = 60
    itl_ms: float = 12
    tokens: int = 120
    jitter: float = 0
    seed: int = 0
    max_num_seqs: int | None = None
    max_model_len: int = 8192
    stream_interval: int = 1
    cold_ms: float = 0
    accept_delay_ms: float = 0
    max_num_queued: int | None = None
    keep_alive_s: float = 5
    fault: str | None = None
    fault_rate: float = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))

    def changed(self, changes: dict[str, Any]) -> "SimSettings":
        """These settings with some changed.

        Raises:
            ValueError: a name is unknown or a value is out of its bounds.
        """
        unknown = changes.keys() - {field.name for field in fields(self)}
        if unknown:
            raise ValueError(f"unknown settings: {', '.join(sorted(unknown))}")
        return replace(self, **changes)


def _check(name: str, value: object) -> None:
    if value is None and name in _NULLABLE:
        return
    if name not in _NUMBERS:
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} must be text, got {value!r}")
        return
    low, high = _NUMBERS[name]
    whole = name not in {"ttft_ms", "itl_ms", "jitter", "cold_ms", "accept_delay_ms", "keep_alive_s", "fault_rate"}
    is_number = not isinstance(value, bool) and isinstance(value, int if whole else (int, float))
    if not is_number or not low <= float(str(value)) <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}")
