"""What a gate is made of: a lane with its queue, the ticket of one who waits, the permit of one who runs."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from gateway.admission.drain import DrainRate
from gateway.errors import Refused

if TYPE_CHECKING:
    from asyncio import Future


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """What a lane may take.

    `queue`: how many may wait. `patience`: seconds in the queue. `slots`: a ceiling below the gate's own, or None.
    """

    queue: int = 64
    patience: float = 30.0
    slots: int | None = None


class Pace(Protocol):
    """Says how many requests of a lane may run at once, as time goes by."""

    def look(self, busy: int) -> int:
        """How many may run now, where `busy` do."""

    def began(self) -> None:
        """One has got its slot."""


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """One lane: permits held, requests in the queue, and how many may run now if that is less than there are slots."""

    running: int
    waiting: int
    ceiling: int | None = None


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """A gate at one moment; more can run than there are `slots` just after these were made fewer."""

    slots: int
    lanes: Mapping[str, LaneStatistics]

    @property
    def running(self) -> int:
        """Permits held, over all lanes."""
        return sum(lane.running for lane in self.lanes.values())

    @property
    def waiting(self) -> int:
        """Requests in the queues, over all lanes."""
        return sum(lane.waiting for lane in self.lanes.values())


class Lane:
    """One lane of a gate: its counts and its queue, which any ticket can leave in O(1)."""

    __slots__ = ("_pace", "ceiling", "drain", "limits", "name", "queue", "running")

    def __init__(self, name: str, limits: LaneLimits) -> None:
        self.name = name
        self.limits = limits
        self.ceiling = self._most
        self._pace: Pace | None = None
        self.running = 0
        self.queue: OrderedDict[Ticket, None] = OrderedDict()
        self.drain = DrainRate()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self.queue)

    @property
    def head(self) -> int:
        """The arrival number of the first in the queue, which must not be empty."""
        return next(iter(self.queue)).number

    @property
    def statistics(self) -> LaneStatistics:
        """The counts of this moment."""
        return LaneStatistics(self.running, self.waiting, None if self.ceiling == sys.maxsize else self.ceiling)

    def pop(self) -> "Ticket":
        """Takes the first out of the queue."""
        return self.queue.popitem(last=False)[0]

    def keep(self, pace: Pace) -> None:
        """Lets a pace set the ceiling, each time that a request ends and whenever `look` is called."""
        self._pace = pace
        self.look()

    def look(self) -> None:
        """Asks the pace again, if there is one."""
        if self._pace is not None:
            self.ceiling = min(self._most, self._pace.look(self.running))

    def began(self) -> None:
        """Tells the pace that one more holds a slot."""
        if self._pace is not None:
            self._pace.began()

    @property
    def _most(self) -> int:
        return sys.maxsize if self.limits.slots is None else self.limits.slots


class Permit:
    """The right to one slot, until it is released. `waited` is the time in the queue in seconds."""

    __slots__ = ("_give_back", "_lane", "_since", "waited")

    def __init__(self, lane: Lane, arrived: float, now: float, give_back: Callable[[Lane, float], None]) -> None:
        self._lane = lane
        self._since = now
        self.waited = now - arrived
        self._give_back: Callable[[Lane, float], None] | None = give_back

    @property
    def lane(self) -> str:
        """The name of the lane."""
        return self._lane.name

    def release(self) -> None:
        """Gives the slot back; from the second time on it does nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back(self._lane, self._since)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class Ticket:
    """One request at the gate. It has a future only once it had to wait."""

    __slots__ = ("arrived", "future", "number", "permit")

    def __init__(self, number: int, arrived: float) -> None:
        self.number = number
        self.arrived = arrived
        self.permit: Permit | None = None
        self.future: Future[Permit] | None = None

    @property
    def waits(self) -> bool:
        """Whether somebody is still there to take a permit."""
        return self.future is None or not self.future.done()

    def grant(self, permit: Permit) -> None:
        """Hands over the permit."""
        self.permit = permit
        if self.future is not None:
            self.future.set_result(permit)

    def refuse(self, error: Refused) -> None:
        """Ends the wait with an error."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)
