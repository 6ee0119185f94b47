"""An engine that works in steps, as vLLM does, and the lanes in front of it: time is counted, nobody waits.

A step takes `base` seconds, `per_sequence` for each answer that it goes on with and `per_token` for each token of the
prompts that begin in it; a chat's prompt begins before a line's. Who comes in the middle of a step waits for its end:
that is what a line's prompt costs a chat, however few lines run.
"""

import random
from dataclasses import dataclass, field

from gateway.pacing.pace import Pacing, Signs
from gateway.pacing.streams import Sample

LOOK_S = 0.25
ON_THE_WAY = 0.004
"""Seconds from the gateway to the engine."""


@dataclass(slots=True)
class Work:
    """A chat or a line: when it came, the tokens of its prompt, those left of its answer, when the first one came."""

    came: float
    prompt: int
    left: int
    first: float | None = None


@dataclass
class SteppingEngine:
    """Chats come as a Poisson process; lines come as the pacing lets them."""

    pacing: Pacing
    base: float = 0.03
    per_sequence: float = 0.001
    per_token: float = 0.0012
    chat: tuple[int, int] = (60, 16)
    line: tuple[int, int] = (45, 8)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    now: float = 0.0
    chats: list[Work] = field(default_factory=list)
    lines: list[Work] = field(default_factory=list)
    ttfts: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    _started: list[Sample] = field(default_factory=list)
    _looked: float = float("-inf")

    def run(self, seconds: float, rate: float, *, batch: bool = True) -> None:
        """So many seconds with `rate` chats a second, and lines if there is a batch."""
        end = self.now + seconds
        arrival = self.now + self.chance.expovariate(rate) if rate else float("inf")
        while self.now < end:
            while arrival <= self.now:
                self.chats.append(Work(arrival, *self.chat))
                arrival += self.chance.expovariate(rate)
            if batch:
                self._look()
            self._step(min(arrival, self.now + 0.01))

    def _look(self) -> None:
        while True:
            waits = [self.now - chat.came for chat in self.chats if chat.first is None]
            signs = Signs(len(self.chats), 0, self._started, max(waits, default=0.0))
            room = self.pacing.look(self.now, signs, len(self.lines)) - len(self.lines)
            self._started = []
            self.limits.append(self.pacing.limit)
            if room <= 0:
                return
            self.pacing.began(self.now)
            self.lines += [Work(self.now, *self.line) for _ in range(room)]

    def _step(self, idle_until: float) -> None:
        there = [
            work for work in (*self.chats, *self.lines) if work.first is not None or work.came + ON_THE_WAY <= self.now
        ]
        if not there:
            self.now = idle_until
            return
        prompts = sum(work.prompt for work in there if work.first is None)
        self.now += self.base + self.per_sequence * len(there) + self.per_token * prompts
        for work in there:
            work.left -= 1
            if work.first is None:
                work.first = self.now
                if work in self.chats:
                    self.ttfts.append(self.now - work.came)
                    self._started.append(Sample(work.came, self.now - work.came))
        self.ended += [self.now for work in self.lines if work.left <= 0]
        self.chats = [work for work in self.chats if work.left > 0]
        self.lines = [work for work in self.lines if work.left > 0]
