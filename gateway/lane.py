"""What a lane is made of, and the bounds of what requests hold in memory."""

from dataclasses import dataclass

from gateway.admission.gate import Gate
from gateway.buffer import Window
from gateway.routing.pool import EnginePool


@dataclass(frozen=True, slots=True)
class Lane:
    """What a lane is made of.

    `gate` may be shared with another lane (one engine for both); `slots` are those of the gate while every engine is in
    service. `overflow` names the lane that takes what this one has no room or no engine for.
    """

    name: str
    gate: Gate
    pool: EnginePool
    window: Window
    strategy: str
    slots: int
    overflow: str | None = None

    def follow_engines(self) -> None:
        """Sets the gate to what the engines that are in service take, at most the lane's `slots`."""
        self.gate.resize(min(self.slots, self.pool.capacity()))


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds in bytes: one event of a stream, what a buffer holds for a slow reader, a whole answer."""

    event: int = 16 * 2**20
    high_water: int = 2**20
    answer: int = 64 * 2**20
