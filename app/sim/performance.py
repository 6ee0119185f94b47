"""A plan while it is carried out on a connection: one timer at a time, due times that do not drift."""

import asyncio
import os
import random
import socket
import struct
import time
from collections.abc import Callable
from enum import Enum

from app.sim.http import framed
from app.sim.jobs import Pace
from app.sim.script import STAMP
from app.sim.steps import Act, Plan, Step

_STAMP = STAMP.encode()
_AT_ONCE = 64  # steps in one go; then the loop may look after others


class Ending(Enum):
    """How a performance is over."""

    DONE = 1  # the connection may be used again
    CLOSED = 2  # the connection was ended on purpose


class Performance:
    """Carries out one plan.

    Args:
        transport: the connection to the client.
        plan: what to do.
        pace: when.
        over: called once with the ending; not called after `cancel`.
    """

    def __init__(self, transport: asyncio.Transport, plan: Plan, pace: Pace, over: Callable[[Ending], None]) -> None:
        self._transport = transport
        self._plan = plan
        self._pace = pace
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._draw = random.Random(pace.seed)
        self._steps = plan.during
        self._next: Step | None = None
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._tick = 0
        self._begun = False
        self._ended = False
        self._held = False
        self._frozen_at: float | None = None

    def announce(self) -> None:
        """Do what does not wait for a seat."""
        for step in self._plan.before:
            if not self._ended:
                self._perform(step)

    def begin(self, wait: float = 0.0) -> None:
        """The request runs from now on, or after so many seconds."""
        self._begun = True
        self._due = self._loop.time() + wait + self._pace.ttft
        self._schedule()

    def cancel(self) -> None:
        """Do nothing more."""
        self._ended = True
        self._drop_timer()

    def hasten(self) -> None:
        """Do all that is left at once: the request was aborted."""
        self._pace = Pace(stamp=self._pace.stamp)
        self._due = self._loop.time()
        self._schedule()

    def freeze(self) -> None:
        """Stop time for this request."""
        if self._frozen_at is None:
            self._frozen_at = self._loop.time()
            self._drop_timer()

    def thaw(self) -> None:
        """Let time go on where it stopped."""
        if self._frozen_at is not None:
            self._due += self._loop.time() - self._frozen_at
            self._frozen_at = None
            self._schedule()

    def hold(self) -> None:
        """The client does not read: write nothing."""
        self._held = True
        self._drop_timer()

    def release(self) -> None:
        """The client reads again: what has become due is written at once."""
        self._held = False
        self._schedule()

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._drop_timer()
        if self._begun and not self._stopped:
            self._timer = self._loop.call_at(self._due, self._advance)

    @property
    def _stopped(self) -> bool:
        return self._ended or self._held or self._frozen_at is not None

    def _advance(self) -> None:
        self._timer = None
        now = self._loop.time()
        for _ in range(_AT_ONCE):
            if self._next is None:
                self._next = next(self._steps, Step(Act.FIN))
                self._reach(self._next)
            if self._due > now:
                break
            step, self._next = self._next, None
            self._perform(step)
            if self._stopped:
                return
        self._timer = self._loop.call_at(self._due, self._advance)

    def _reach(self, step: Step) -> None:
        """Move the due time on to the tick of a step."""
        pace = self._pace
        while self._tick < step.tick:
            self._tick += 1
            self._due += pace.itl * (1 + pace.jitter * self._draw.uniform(-1, 1) if pace.jitter else 1)
        self._due += step.pause

    def _perform(self, step: Step) -> None:
        act = step.act
        if act is Act.EVENT or act is Act.RAW:
            data = step.data
            if self._pace.stamp:
                data = data.replace(_STAMP, b"@%016x" % (time.monotonic_ns() // 1000))
            self._transport.write(framed(data) if act is Act.EVENT else data)
        elif act is Act.END:
            if self._plan.chunked:
                self._transport.write(b"0\r\n\r\n")
            self._end(Ending.DONE)
        elif act is Act.FIN:
            self._transport.close()
            self._end(Ending.CLOSED)
        elif act is Act.RESET:
            reset(self._transport)
            self._end(Ending.CLOSED)
        elif act is Act.STALL:
            self._ended = True

    def _end(self, ending: Ending) -> None:
        self._ended = True
        self._over(ending)


def reset(transport: asyncio.Transport) -> None:
    """Close with RST: SO_LINGER 0 is set on a second descriptor of the socket, which every event loop allows."""
    twin = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
    with twin:
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
