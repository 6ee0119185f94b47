"""What a fault is."""

from collections.abc import Callable
from dataclasses import dataclass

from app.sim.steps import Plan


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; `after` counts token events, `value` is the status or the milliseconds of a gap."""

    kind: str
    after: int = 0
    value: int = 0
    retry_after: str | None = None
    html: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault needs to know of the request."""

    stream: bool
    now: float
    close: bool
    takes_gzip: bool
    path: str = "/v1/chat/completions"


Affliction = Callable[[Plan, Fault, Scene], Plan]
