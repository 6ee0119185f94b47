"""One request and all that it holds."""

import asyncio
import time
from collections.abc import Callable

from app.sim.jobs import Job
from app.sim.performance import Ending, Performance
from app.sim.server import Request


class Exchange:
    """A request from its first byte to its end.

    Args:
        request: what was asked.
        job: what is done for it.
        transport: where.
        over: tells the connection that the answer has ended.
        release: tells the engine that the request has ended, whichever way.
    """

    def __init__(
        self,
        request: Request,
        job: Job,
        transport: asyncio.Transport,
        over: Callable[[Ending], None],
        release: Callable[["Exchange"], None],
    ) -> None:
        self.request = request
        self.job = job
        self.performance = Performance(transport, job.plan, job.pace, self._ended)
        self._over = over
        self._release = release

    def _ended(self, ending: Ending) -> None:
        self._close(finished=ending is Ending.DONE)
        self._over(ending)

    def left(self) -> None:
        """The client has gone, or the server closes."""
        self.performance.cancel()
        self._close(finished=False)

    def _close(self, *, finished: bool) -> None:
        self.request.finished = finished
        self.request.closed_at = time.monotonic()
        self._release(self)
