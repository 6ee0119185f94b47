"""Who runs and who waits: vLLM's scheduler seen from outside."""

import heapq
from dataclasses import dataclass
from itertools import count

_WAITING, _RUNNING, _GONE = 0, 1, 2


@dataclass(slots=True, eq=False)
class Seat:
    """The place of one request: `sequences` of its choices run together; lower `priority` goes first."""

    sequences: int
    priority: int = 0
    state: int = _WAITING


class Seats:
    """A queue ordered by priority and arrival, and the sequences that run; running ones are never preempted."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting = 0
        self.closed = False
        self._queue: list[tuple[int, int, Seat]] = []
        self._arrivals = count()
        self._sequences = 0

    def __repr__(self) -> str:
        return f"<Seats running={self.running} waiting={self.waiting}{' closed' if self.closed else ''}>"

    def has_room(self, sequences: int, limit: int | None) -> bool:
        """Whether a request would run at once; one that is larger than the limit runs alone."""
        if self.closed or self.waiting:
            return False
        return self._fits(sequences, limit)

    def _fits(self, sequences: int, limit: int | None) -> bool:
        return limit is None or not self._sequences or self._sequences + sequences <= limit

    def join(self, seat: Seat) -> None:
        """Queue a request; `admit` lets it in."""
        self.waiting += 1
        heapq.heappush(self._queue, (seat.priority, next(self._arrivals), seat))

    def admit(self, limit: int | None) -> list[Seat]:
        """Let in whoever fits, in order; the first that does not fit stops those behind it."""
        admitted: list[Seat] = []
        while self._queue and not self.closed:
            seat = self._queue[0][2]
            if seat.state == _GONE:
                heapq.heappop(self._queue)
                continue
            if not self._fits(seat.sequences, limit):
                break
            heapq.heappop(self._queue)
            seat.state = _RUNNING
            self.waiting -= 1
            self.running += 1
            self._sequences += seat.sequences
            admitted.append(seat)
        return admitted

    def leave(self, seat: Seat) -> None:
        """Give the place back, whichever it was; a second time does nothing."""
        if seat.state == _RUNNING:
            self.running -= 1
            self._sequences -= seat.sequences
        elif seat.state == _WAITING:
            self.waiting -= 1
        seat.state = _GONE
