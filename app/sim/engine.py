"""The simulated engine: a server that can be started, asked, changed and inspected from a test."""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from app.sim.asked import Asked
from app.sim.exchange import Exchange
from app.sim.faults import read_fault
from app.sim.http import Page, json_page
from app.sim.jobs import GENERATING, Circumstances, Job, make_job, read_request
from app.sim.kernels import Kernels
from app.sim.pages import Counts, not_found, wrong_method
from app.sim.performance import Ending
from app.sim.refusals import Refused, as_message, busy
from app.sim.routes import BY_ID, make_routes, response_routes
from app.sim.seats import Seat, Seats
from app.sim.server import Connection, Request
from app.sim.settings import SimSettings
from app.sim.steps import Part, Plan, page_steps
from app.sim.stored import StoredResponses

_KEPT_REQUESTS = 1000
_LAST_WRITES = 1.0  # seconds that a closing engine waits for its clients to read


class SimEngine:
    """A simulated vLLM on a port of its own.

    Args:
        settings: how it behaves until `set` changes it.

    Attributes:
        settings: as they are now.
        requests: the last thousand requests, `/sim/...` apart, oldest first.
        stored: the responses that it keeps.
        started_at: when it was started, in seconds of the epoch.
    """

    def __init__(self, settings: SimSettings | None = None) -> None:
        self.settings = SimSettings()
        self.requests: deque[Request] = deque(maxlen=_KEPT_REQUESTS)
        self.started_at = 0.0
        self._kernels = Kernels()
        self._seats = Seats()
        self._exchanges: dict[Seat, Exchange] = {}
        self._connections: set[Connection] = set()
        self._counts = Counts()
        self.stored = StoredResponses()
        self._server: asyncio.Server | None = None
        self._all_gone = asyncio.Event()
        self._seats_changed = asyncio.Event()
        self._routes = make_routes(self)
        if settings is not None:
            self._use(settings)

    def __repr__(self) -> str:
        return f"<SimEngine {self._seats!r} connections={len(self._connections)}>"

    @property
    def running(self) -> int:
        """Requests that generate."""
        return self._seats.running

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self._seats.waiting

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def compiled(self) -> int:
        """How often a batch of a new size was met, if that costs anything."""
        return self._kernels.compiled

    @property
    def port(self) -> int:
        """The port that it listens on.

        Raises:
            RuntimeError: it has not been started.
        """
        if self._server is None or not self._server.sockets:
            raise RuntimeError("the engine does not listen")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """`http://host:port`, without a path."""
        host = self._server.sockets[0].getsockname()[0] if self._server else ""
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one.

        Raises:
            OSError: the address cannot be had.
        """
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), host, port, backlog=2048
        )
        self._kernels = Kernels()
        self.started_at = self.wall_clock()

    async def close(self) -> None:
        """Stop listening, cancel every answer, close every connection and wait for that."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone(), _LAST_WRITES)
        for connection in list(self._connections):
            connection.close(hard=True)
        await self._gone()

    async def _gone(self) -> None:
        while self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def settled(self, running: int, waiting: int = 0) -> None:
        """Wait until exactly so many requests run and wait."""
        while (self.running, self.waiting) != (running, waiting):
            self._seats_changed.clear()
            await self._seats_changed.wait()

    def set(self, **changes: Any) -> None:
        """Change settings for the requests to come.

        Raises:
            ValueError: a name is unknown or a value is out of its bounds.
        """
        self._use(self.settings.changed(changes))
        self._admit()

    def _use(self, settings: SimSettings) -> None:
        if settings.fault is not None:
            read_fault(settings.fault)
        self.settings = settings

    # What connections ask

    def opened(self, connection: Connection) -> float:
        """A connection was made; the seconds for which it is not read."""
        self._connections.add(connection)
        return self.settings.accept_delay_ms / 1000

    def closed(self, connection: Connection) -> None:
        """A connection is no more."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()

    def idle_limit(self) -> float:
        """Seconds for which a connection may idle."""
        return self.settings.keep_alive_s

    def wall_clock(self) -> float:
        """Seconds of the epoch."""
        return time.time()

    def answer(self, request: Request, transport: asyncio.Transport, over: Callable[[Ending], None]) -> Exchange:
        """Answer a request; `over` is called when that is done."""
        request.received_at = time.monotonic()
        if not request.path.startswith("/sim/"):
            self.requests.append(request)
        try:
            job = self._job(request)
        except Refused as refused:
            body = as_message(refused.body) if request.path.startswith("/v1/messages") else refused.body
            job = Job(self._page(request, json_page(body, refused.status)))
        exchange = Exchange(request, job, transport, over, self._leave)
        if job.seat is not None:
            self._exchanges[job.seat] = exchange
            self._seats.join(job.seat)
            asyncio.get_running_loop().call_soon(self._admit)
        return exchange

    def _job(self, request: Request) -> Job:
        if request.method == "POST" and request.path in GENERATING:
            return self._generate(request)
        if request.method == "GET" and request.path.startswith(BY_ID) and request.query.get("stream") == "true":
            after = request.query.get("starting_after", "")
            response_id = request.path.removeprefix(BY_ID)
            return Job(
                self.stored.replay(
                    response_id, int(after) if after.isdecimal() else -1, self.wall_clock(), close=request.close
                )
            )
        return Job(self._page(request, self._find_page(request)))

    def _page(self, request: Request, page: Page) -> Plan:
        steps = page_steps(page, self.wall_clock(), close=request.close)
        if request.method == "HEAD":
            steps = [step for step in steps if step.part is not Part.BODY]
        return Plan(steps)

    # Generation

    def _generate(self, request: Request) -> Job:
        asked, controls = read_request(request.path, request.body, request.headers, self.settings)
        self._check_queue(asked)
        self._counts.generations += 1
        now, named = self.wall_clock(), secrets.token_hex(8)
        given = Circumstances(self._counts.generations, now, named, request.close, request.path)
        if request.path == "/v1/responses":
            self.stored.check(asked)
            shown = self.stored.add(asked, controls, self.settings, given)
            if asked.fields.get("background"):
                return Job(self._page(request, json_page(shown | {"status": "queued"})))
        job = make_job(asked, controls, request.headers, self.settings, given)
        if job.seat is not None:
            self._counts.prompt_tokens += asked.prompt_tokens
        return job

    def _check_queue(self, asked: Asked) -> None:
        most, limit = self.settings.max_num_queued, self.settings.max_num_seqs
        if most is None or self._seats.has_room(asked.sequences, limit):
            return
        if self._seats.waiting >= most:
            self._counts.rejected += 1
            raise busy()

    def _admit(self) -> None:
        admitted = self._seats.admit(self.settings.max_num_seqs)
        now, cost = asyncio.get_running_loop().time(), self.settings.cold_ms / 1000
        wait = self._kernels.wait(self._seats.running, now, cost) if admitted else 0.0
        for seat in admitted:
            self._exchanges[seat].performance.begin(wait)
        self._seats_changed.set()

    def _leave(self, exchange: Exchange) -> None:
        seat, generation = exchange.job.seat, exchange.job.generation
        if seat is None or generation is None or self._exchanges.pop(seat, None) is None:
            return
        self._seats.leave(seat)
        self._seats_changed.set()
        self._counts.generation_tokens += generation.generated
        if exchange.request.finished and generation.finish is not None:
            reason = "stop" if generation.finish == "tool_calls" else generation.finish
            self._counts.finished[reason] += 1
        asyncio.get_running_loop().call_soon(self._admit)

    # Other endpoints

    def _find_page(self, request: Request) -> Page:
        methods = self._routes.get(request.path) or response_routes(self, request.path)
        if methods is None:
            return wrong_method("POST") if request.path in GENERATING else not_found()
        handler = methods.get(request.method)
        return handler(request) if handler is not None else wrong_method(", ".join(methods))

    def counts(self) -> Counts:
        """What has been counted so far."""
        self._counts.running, self._counts.waiting = self.running, self.waiting
        return self._counts

    @property
    def paused(self) -> bool:
        """Whether no request may begin."""
        return self._seats.closed

    def abort_requests(self) -> int:
        """End every request with the finish "abort"; how many there were."""
        exchanges = list(self._exchanges.values())
        for exchange in exchanges:
            if exchange.job.generation is not None:
                exchange.job.generation.abort()
                exchange.performance.hasten()
        return len(exchanges)

    def pause(self, *, abort: bool = False) -> None:
        """Let no request begin, and stop time for those that run, or abort them."""
        if abort:
            self.abort_requests()
        self._seats.closed = True
        for exchange in () if abort else self._exchanges.values():
            exchange.performance.freeze()

    def resume(self) -> None:
        """Undo `pause`."""
        self._seats.closed = False
        for exchange in list(self._exchanges.values()):
            exchange.performance.thaw()
        self._admit()
