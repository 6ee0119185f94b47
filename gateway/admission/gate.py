"""The gate: slots, and for each lane a bounded queue in which a request waits for as long as the lane's patience.

It stands before the connections to the engines, so that nothing ever queues there. Rules:

- Within a lane first come, first served; between lanes the policy decides, each time a slot is free.
- A slot is taken from the moment a request has its permit until the permit is released, whichever way that comes. A
  request cancelled while it waits leaves no trace; one cancelled in the very tick of its admission gives the slot
  back.
- All state changes in plain methods, none across an `await`. A request that need not wait costs no future, timer, task.
- It counts for one process and belongs to one event loop: several gateways each have their own slots.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count

from gateway.admission.lanes.policy import LanePolicy
from gateway.admission.queue import GateStatistics, Lane, LaneLimits, LaneStatistics, Pace, Permit, Ticket
from gateway.errors import LaneFull, PatienceExhausted, Refused

__all__ = ["Gate", "GateStatistics", "LaneLimits", "LaneStatistics", "Pace", "Permit"]


class Gate:
    """Slots that one or several lanes share.

    Args:
        name: for `repr` and metrics.
        slots: how many may run at once, over all lanes.
        lanes: name -> limits.
        policy: which lane goes next.
        clock: monotonic seconds.
    """

    def __init__(
        self, name: str, slots: int, lanes: Mapping[str, LaneLimits], policy: LanePolicy, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self._lanes = {lane: Lane(lane, limits) for lane, limits in lanes.items()}
        self._policy = policy
        self._clock = clock
        self._running = 0
        self._arrivals = count()
        self._closed: Refused | None = None
        self._slots = 0
        self.resize(slots)

    def __repr__(self) -> str:
        lanes = ", ".join(
            f"{name}: {lane.running} running, {lane.waiting} waiting" for name, lane in self._lanes.items()
        )
        closed = ", closed" if self._closed else ""
        return f"<Gate {self.name!r} {self._running}/{self._slots} slots{closed} ({lanes})>"

    async def acquire(self, lane: str) -> Permit:
        """A slot for one request of `lane`, at once or after a wait.

        Raises:
            LaneFull: the slots are taken and so is every place in the queue.
            PatienceExhausted: no slot came free in time.
            Refused: the error of `close`.
            KeyError: the gate does not know the lane.
        """
        entered = self._lanes[lane]
        ticket = self._enter(entered)
        return ticket.permit or await self._wait(entered, ticket)

    def resize(self, slots: int) -> None:
        """Sets the number of slots. What runs above a lower number goes on; nobody is admitted until it has drained.

        With 0 slots requests wait for an engine to come back for as long as their patience.
        """
        if slots < 0:
            raise ValueError("a gate cannot have fewer than 0 slots")
        self._slots = slots
        self._admit()

    def keep(self, lane: str, pace: Pace) -> None:
        """Lets a pace say how many requests of a lane may run at once: when one of them ends, and at each `look`."""
        self._lanes[lane].keep(pace)

    def look(self, lane: str) -> None:
        """Asks the pace of a lane again, and admits whom it lets in. What runs above a lower number goes on."""
        self._lanes[lane].look()
        self._admit()

    def close(self, error: Refused) -> None:
        """Refuses all who wait and all who come, with errors like this one. What runs goes on."""
        self._closed = error
        for lane in self._lanes.values():
            while lane.queue:
                lane.pop().refuse(_another(error))

    def statistics(self) -> GateStatistics:
        """The counts of this moment."""
        lanes = {name: lane.statistics for name, lane in self._lanes.items()}
        return GateStatistics(self._slots, lanes)

    def _enter(self, lane: Lane) -> Ticket:
        if self._closed is not None:
            raise _another(self._closed)
        ticket = Ticket(next(self._arrivals), self._clock())
        lane.queue[ticket] = None
        self._admit()
        if ticket.permit is None and lane.waiting > lane.limits.queue:
            del lane.queue[ticket]
            taken = f"{lane.running} running and {lane.waiting} waiting"
            raise LaneFull(f"The lane {lane.name!r} is full: {taken}.", retry_after=self._retry_after(lane))
        return ticket

    async def _wait(self, lane: Lane, ticket: Ticket) -> Permit:
        loop = asyncio.get_running_loop()
        ticket.future = loop.create_future()
        timer = loop.call_later(lane.limits.patience, self._tire, lane, ticket)
        try:
            return await ticket.future
        except BaseException:  # cancelled, refused, or the coroutine was closed: the place or the slot goes back
            self._leave(lane, ticket)
            raise
        finally:
            timer.cancel()

    def _admit(self) -> None:
        while self._running < self._slots:
            waiting = [lane for lane in self._lanes.values() if lane.queue and lane.running < lane.ceiling]
            if not waiting:
                return
            chosen = self._policy.choose(waiting, self._slots - self._running, self._slots)
            if chosen is None:
                return
            self._grant(self._lanes[chosen])

    def _grant(self, lane: Lane) -> None:
        ticket = lane.pop()
        if not ticket.waits:  # cancelled, but its task has not run since
            return
        lane.running += 1
        self._running += 1
        ticket.grant(Permit(lane, ticket.arrived, self._clock(), self._give_back))
        lane.began()

    def _give_back(self, lane: Lane, since: float) -> None:
        lane.running -= 1
        self._running -= 1
        lane.drain.record(self._clock() - since)
        lane.look()
        self._admit()

    def _leave(self, lane: Lane, ticket: Ticket) -> None:
        lane.queue.pop(ticket, None)
        if ticket.permit is not None:
            ticket.permit.release()
        self._admit()

    def _tire(self, lane: Lane, ticket: Ticket) -> None:
        if ticket not in lane.queue:  # granted or refused in this tick
            return
        del lane.queue[ticket]
        message = f"No slot of the lane {lane.name!r} came free within {lane.limits.patience:g} s."
        ticket.refuse(PatienceExhausted(message, retry_after=self._retry_after(lane)))
        self._admit()

    def _retry_after(self, lane: Lane) -> float:
        return lane.drain.retry_after(lane.waiting + 1, lane.running)


def _another(error: Refused) -> Refused:
    """An error like it: one exception raised in many tasks would gather all their tracebacks."""
    return type(error)(str(error), retry_after=error.retry_after)
