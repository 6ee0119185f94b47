"""What one request asks of the simulator by `x-sim-*` headers.

x-sim-ttft-ms, x-sim-itl-ms, x-sim-tokens, x-sim-seed   the settings of the same names
x-sim-stamp: 1          each token's text is ` @<16 hex digits of time.monotonic_ns() // 1000 at sending>`
x-sim-burst: K          K tokens (K events) a tick
x-sim-reasoning: N      N tokens of reasoning before the answer
x-sim-script: NAME      unicode | tools | two_tools | long_event:BYTES
x-sim-fault: ...        see `app.sim.faults`
x-sim-fault-rate: P     the probability with which the fault applies
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from app.sim.settings import MAX_MS, MAX_TOKENS, SimSettings

_SCRIPTS = frozenset({"unicode", "tools", "two_tools"})
MAX_EVENT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Controls:
    """The pace of one request, in seconds, and its script.

    `tokens` is None where nothing but the settings says how long the answer is.
    """

    ttft: float
    itl: float
    tokens: int | None
    seed: int
    stamp: bool
    burst: int
    reasoning: int | None
    script: str | None
    long_event: int
    fault: str | None
    fault_rate: float


def read_controls(headers: Mapping[str, str], settings: SimSettings) -> Controls:
    """The controls of a request.

    Args:
        headers: names in lower case.
        settings: what holds where a header is absent.

    Raises:
        ValueError: a value is not understood or out of its bounds; the message names the header.
    """
    tokens = headers.get("x-sim-tokens")
    reasoning = headers.get("x-sim-reasoning")
    script, long_event = _script(headers.get("x-sim-script"))
    return Controls(
        ttft=_number(headers, "x-sim-ttft-ms", settings.ttft_ms, 0, MAX_MS) / 1000,
        itl=_number(headers, "x-sim-itl-ms", settings.itl_ms, 0, MAX_MS) / 1000,
        tokens=None if tokens is None else _whole(headers, "x-sim-tokens", 0, 0, MAX_TOKENS),
        seed=_whole(headers, "x-sim-seed", settings.seed, -(2**63), 2**63),
        stamp=bool(_whole(headers, "x-sim-stamp", 0, 0, 1)),
        burst=_whole(headers, "x-sim-burst", 1, 1, MAX_TOKENS),
        reasoning=None if reasoning is None else _whole(headers, "x-sim-reasoning", 0, 0, MAX_TOKENS),
        script=script,
        long_event=long_event,
        fault=headers.get("x-sim-fault", settings.fault),
        fault_rate=_number(headers, "x-sim-fault-rate", settings.fault_rate, 0, 1),
    )


def _number(headers: Mapping[str, str], name: str, default: float, low: float, high: float) -> float:
    text = headers.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got {text!r}")
    return value


def _whole(headers: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = headers.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {text!r}") from None
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, got {text!r}")
    return value


def _script(text: str | None) -> tuple[str | None, int]:
    if text is None or text in _SCRIPTS:
        return text, 0
    name, _, size = text.partition(":")
    if name == "long_event":
        return name, _whole({"x-sim-script": size}, "x-sim-script", 0, 1, MAX_EVENT)
    raise ValueError(f"x-sim-script must be one of {', '.join(sorted(_SCRIPTS))}, long_event:BYTES; got {text!r}")
