"""The pace with its clock and its signs, and the loop that asks it for a lane which shares its engines."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from gateway.admission.gate import Gate
from gateway.pacing.pace import Pacing, Signs

LOOK_S = 0.25
"""Seconds between two looks at the interactive lane."""

PAUSED_S = 0.05
"""The same while a request could run and is held back."""


class Pacer:
    """A pacing that looks for itself.

    Args:
        pacing: the rules.
        signs: how the interactive lane did since the last look.
        clock: monotonic seconds.
    """

    def __init__(self, pacing: Pacing, signs: Callable[[], Signs], clock: Callable[[], float]) -> None:
        self._pacing = pacing
        self._signs = signs
        self._clock = clock

    @property
    def limit(self) -> int:
        """Batch requests that may run at once."""
        return self._pacing.limit

    @property
    def ceiling(self) -> int:
        """The limit never is above."""
        return self._pacing.ceiling

    @property
    def paused(self) -> bool:
        """Whether there is room for one which does not begin for a moment."""
        return self._pacing.paused

    @property
    def look_s(self) -> float:
        """Seconds until the next look."""
        return PAUSED_S if self.paused else LOOK_S

    def look(self, busy: int) -> int:
        """How many may run now, where `busy` do: the limit, or as many as do."""
        return self._pacing.look(self._clock(), self._signs(), busy)

    def began(self) -> None:
        """One has begun, or several."""
        self._pacing.began(self._clock())


async def keep(gate: Gate, lane: str, pacer: Pacer) -> NoReturn:
    """Keeps a lane of a gate to its pace, until it is cancelled."""
    gate.keep(lane, pacer)
    while True:
        await asyncio.sleep(pacer.look_s)
        gate.look(lane)
