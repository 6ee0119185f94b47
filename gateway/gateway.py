"""One request, one owner: the order of steps, and the undo of each.

    slot of the lane -> engine of the lane -> connection and head -> first event -> flushes -> end

A `Passage` is that owner. Whatever it takes it gives back once, in `close`, whichever way the request ends: whole,
failed, refused, or left by its client at any of the steps.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.admission.gate import Gate, Permit
from gateway.buffer import TokenBuffer, Window
from gateway.buffer.endings import DIALECTS
from gateway.call import Call, read_window
from gateway.errors import (
    ClientError,
    Draining,
    EngineAnswered,
    EngineBroke,
    EngineError,
    EngineSilent,
    EngineStale,
    EngineUnreachable,
    GatewayError,
    LaneFull,
    NoEngine,
    Refused,
    RequestError,
)
from gateway.relay import Deadlines, Relay, Write
from gateway.routing.breaker import outcome_of
from gateway.routing.pool import Engine, EnginePool, Lease
from gateway.stored import RETRY_AFTER, StoredResponses, serving
from gateway.telemetry import (
    EngineHealthChanged,
    Observer,
    Outcome,
    RequestAdmitted,
    RequestEnded,
    RequestRetried,
    StreamStats,
    TelemetryEvent,
)
from gateway.ticker import Ticker
from gateway.upstream.client import EngineClient, EngineResponse
from gateway.upstream.engines import KINDS
from gateway.wire import render
from gateway.wire.shapes import status_of
from gateway.wire.whole import WholeAnswer, read_whole

BUSY = frozenset({429, 503})
"""An engine's word that it is busy: no failure, and another engine may be asked."""

ERROR_BODY = 2**20
"""Bytes of an engine's error that are read."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What a lane is made of.

    `gate` may be shared with another lane (one engine for both); `slots` are those of the gate while every engine is in
    service. `overflow` names the lane that takes what this one has
    no room or no engine for.
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


@dataclass(slots=True)
class Gateway:
    """Everything that requests share. It is built once and lives as long as the service.

    `stored` knows which engine keeps which response.
    """

    lanes: Mapping[str, Lane]
    client: EngineClient
    ticker: Ticker
    observer: Observer
    deadlines: Deadlines = field(default_factory=Deadlines)
    limits: Limits = field(default_factory=Limits)
    live: set["Passage"] = field(default_factory=set)
    stored: StoredResponses = field(init=False)

    def __post_init__(self) -> None:
        engines = [engine for lane in self.lanes.values() for engine in lane.pool.engines]
        self.stored = StoredResponses(self.client, engines)

    @asynccontextmanager
    async def passage(self, call: Call, cut: Callable[[GatewayError], None]) -> AsyncIterator["Passage"]:
        """Owns one request for as long as the block lasts.

        Args:
            call: what the client asks for.
            cut: ends the block from outside with the error it is given: the client does not read, the service ends.
        """
        passage = Passage(self, call, cut)
        self.live.add(passage)
        try:
            yield passage
        except BaseException as error:
            passage.close(error)
            raise
        else:
            passage.close(None)
        finally:
            self.live.discard(passage)

    def observe(self, event: TelemetryEvent) -> None:
        """Lets the slots follow the engines that come and go."""
        if isinstance(event, EngineHealthChanged):
            self.lanes[event.lane].follow_engines()

    def drain(self) -> None:
        """Refuses what is new and what still waits; streams go on."""
        for lane in self.lanes.values():
            lane.gate.close(Draining("The gateway is shutting down.", retry_after=5))

    def end_all(self) -> None:
        """Ends every request that is still there: a stream with an error event, anything else with an error."""
        for passage in list(self.live):
            passage.end(Draining("The gateway was shut down.", retry_after=5))


class Passage:
    """One request and everything it holds.

    Attributes:
        committed: the status went out; from now on an error can only be an event of the stream.
        queued: seconds spent waiting for a slot.
        engine_wait: seconds that the engine took until its first event, or its whole answer.
        report: how it ended, None until it has.
    """

    def __init__(self, gateway: Gateway, call: Call, cut: Callable[[GatewayError], None]) -> None:
        self.call = call
        self.committed = False
        self.queued = 0.0
        self.engine_wait = 0.0
        self.report: RequestEnded | None = None
        self._overhead: float | None = None
        self._gateway = gateway
        self._lane = gateway.lanes[call.lane]
        self._cut = cut
        self._loop = asyncio.get_running_loop()
        self._arrived = self._loop.time()
        self._permit: Permit | None = None
        self._lease: Lease | None = None
        self._response: EngineResponse | None = None
        self._relay: Relay | None = None
        self._buffer: TokenBuffer | None = None
        self._whole_stats: StreamStats | None = None
        self._home: Engine | None = None

    @property
    def lane(self) -> str:
        """The name of the lane that serves it: the chosen one, or the one that it overflows into."""
        return self._lane.name

    @property
    def engine(self) -> str:
        """The name of the engine that answers, empty while there is none."""
        return self._lease.engine.name if self._lease else ""

    @property
    def elapsed(self) -> float:
        """Seconds since the request came."""
        return self._loop.time() - self._arrived

    async def open(self) -> None:
        """Returns when the engine's first event is there; then `pump` writes the stream.

        Raises what prevents it: Refused, an EngineError (with the status of an error event that comes first).
        """
        window = read_window(self.call.headers.get("x-tokenlane-buffer"), self._lane.window)
        await self._enter()
        asked_at = self._loop.time()
        response = await self._ask(self._gateway.deadlines.first_token)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise EngineBroke("The engine answered a stream request with something else.")
        buffer = self._buffer = self._new_buffer(window)
        self._relay = Relay(
            buffer,
            response,
            ticker=self._gateway.ticker,
            deadlines=self._gateway.deadlines,
            asked_at=asked_at,
            cut=self._cut,
        )
        await self._relay.opened()
        self.engine_wait = self._loop.time() - asked_at
        if buffer.opening_error is not None:
            raise EngineAnswered(status_of(buffer.opening_error), buffer.opening_error)
        if buffer.failure is not None and not buffer.has_event:
            raise buffer.failure
        self._remember(buffer.answer_id)
        self._note_overhead()

    async def pump(self, write: Write, unsent: Callable[[], int]) -> None:
        """Writes the stream to its end, each flush as soon as it is due; for `unsent` see `Relay.pump`."""
        assert self._relay is not None, "open() comes first"  # noqa: S101 - a programming error
        await self._relay.pump(write, unsent)

    async def fetch(self) -> WholeAnswer:
        """The whole answer of a request that is not streamed. Raises Refused or an EngineError."""
        await self._enter()
        deadline = self._gateway.deadlines.whole
        started = self._loop.time()
        response = await self._ask(deadline)
        try:
            async with asyncio.timeout_at(started + deadline):
                body = await response.read(self._gateway.limits.answer)
        except TimeoutError as error:
            raise EngineSilent("The engine gave no answer in time.") from error
        self.engine_wait = self._loop.time() - started
        read = read_whole(body, self.call.tier)
        self._whole_stats = read.stats
        self._remember(read.answer_id)
        self._note_overhead()
        return WholeAnswer(response.status, read.body, _said(response, "content-type") or "application/json")

    def error_event(self, error: BaseException) -> bytes:
        """The event that ends a stream which was opened and cannot go on by itself."""
        if self._buffer is not None:
            return self._buffer.error_event(error)
        return DIALECTS[self.call.endpoint.dialect or "openai"]().error_event(error)

    def end(self, error: GatewayError) -> None:
        """Ends the request from outside: a stream with an error event, anything else with the error itself."""
        if self._relay is not None and self.committed:
            self._relay.ended(error)
        else:
            self._cut(error)

    def close(self, error: BaseException | None) -> None:
        """Gives everything back and reports the request. A plain call: nothing can come between.

        Args:
            error: what ended the request, None if nothing did.
        """
        if self._relay is not None:
            self._relay.close()
        if self._response is not None:
            self._response.close()
        if error is None and self._buffer is not None:
            error = self._buffer.failure
        if self._lease is not None:
            self._lease.release(outcome_of(error))
        if self._permit is not None:
            self._permit.release()
        self.report = self._report(error)
        self._gateway.observer(self.report)

    async def _enter(self) -> None:
        """A slot and an engine: of the lane, else of the one that it overflows into."""
        if self.call.stored is not None:
            await self._go_home(self.call.stored)
        try:
            await self._admit()
        except (LaneFull, NoEngine):
            if self._lane.overflow is None or self._home is not None:
                raise
            self._lane = self._gateway.lanes[self._lane.overflow]
            await self._admit()

    async def _go_home(self, response_id: str) -> None:
        """Ties the request to the engine that keeps a response, and to a lane that has this engine."""
        engine = await self._gateway.stored.home(response_id)
        for lane in (self._lane, *self._gateway.lanes.values()):
            if home := serving(engine, lane.pool.engines):
                self._lane, self._home = lane, home
                return

    async def _admit(self) -> None:
        lane = self._lane
        if not lane.pool.capacity():
            raise lane.pool.no_engine()
        permit = await lane.gate.acquire(lane.name)
        try:
            others = [engine for engine in lane.pool.engines if self._home and engine is not self._home]
            self._lease = lane.pool.lease(exclude=others, key=self.call.session)
        except NoEngine:
            permit.release()
            raise
        self._permit = permit
        self.queued = permit.waited
        self._gateway.observer(RequestAdmitted(lane.name, self.queued))

    async def _ask(self, limit: float) -> EngineResponse:
        """The head of a good answer. Asks once more where that is safe: nothing was sent to the client yet."""
        try:
            async with asyncio.timeout(limit):
                lease = self._lease
                assert lease is not None  # noqa: S101 - `_enter` comes first
                try:
                    return await self._ask_engine(lease.engine)
                except (EngineStale, EngineUnreachable, EngineAnswered) as error:
                    engine, first = self._engine_for_another_try(lease, error), error
                try:
                    return await self._ask_engine(engine, fresh=engine is lease.engine)
                except EngineUnreachable as second:  # that the other one is busy says more: when to come back
                    raise (first if isinstance(first, EngineAnswered) else second) from None
        except TimeoutError as error:
            raise EngineSilent("The engine gave no first token in time.") from error

    async def _ask_engine(self, engine: Engine, *, fresh: bool = False) -> EngineResponse:
        call = self.call
        url = engine.url + (call.target or call.endpoint.path)
        response = self._response = await self._gateway.client.send(
            call.endpoint.method, url, headers=_headers_for(engine, call), body=call.body, fresh=fresh
        )
        if response.status == 200:
            return response
        body = await response.read(ERROR_BODY)
        content_type, retry_after = _said(response, "content-type"), _said(response, "retry-after") or None
        raise EngineAnswered(response.status, body, content_type=content_type, retry_after=retry_after)

    def _engine_for_another_try(self, lease: Lease, error: EngineError) -> Engine:
        """Who is asked next, the failed try undone; raises the error if nobody is to be asked.

        A stale connection says nothing about the engine: the same one is asked, on another connection. An engine that
        cannot be reached, or is busy, is left to another one of the lane, if there is one.
        """
        reason = "stale"
        if not isinstance(error, EngineStale):
            if isinstance(error, EngineAnswered) and error.status not in BUSY:
                raise error
            reason = "busy" if isinstance(error, EngineAnswered) else "unreachable"
            if self._home is not None:
                raise self._homeless(lease, error)
            try:
                self._lease = self._lane.pool.lease(exclude=(lease.engine,))
            except NoEngine:
                raise error from None
            lease.release(outcome_of(error))
        if self._response is not None:
            self._response.close()
            self._response = None
        self._gateway.observer(RequestRetried(self._lane.name, lease.engine.name, reason))
        return self._lease.engine if self._lease is not None else lease.engine

    def _homeless(self, lease: Lease, error: EngineError) -> GatewayError:
        """What is said where the only engine that will do cannot be reached; if it answered, what it said."""
        if isinstance(error, EngineAnswered):
            return error
        lease.release(outcome_of(error))
        return NoEngine("The engine that keeps this response cannot be reached.", retry_after=RETRY_AFTER)

    def _new_buffer(self, window: Window) -> TokenBuffer:
        endpoint, limits = self.call.endpoint, self._gateway.limits
        return TokenBuffer(
            strategy=self._lane.strategy if endpoint.merges else "passthrough",
            window=window,
            max_event=limits.event,
            high_water=limits.high_water,
            dialect=endpoint.dialect or "openai",
            hide_usage=self.call.hides_usage,
        )

    def _remember(self, answer_id: str | None) -> None:
        if self.call.endpoint.keeps and answer_id is not None and self._lease is not None:
            self._gateway.stored.remember(answer_id, self._lease.engine)

    def _note_overhead(self) -> None:
        self._overhead = max(0.0, self.elapsed - self.queued - self.engine_wait)

    def _report(self, error: BaseException | None) -> RequestEnded:
        stats = self._buffer.stats if self._buffer is not None else self._whole_stats
        first = stats.first_token_at if stats is not None else None
        return RequestEnded(
            endpoint=self.call.endpoint.path,
            lane=self._lane.name,
            engine=self.engine,
            stream=self.call.stream,
            status=self._status(error),
            outcome=_outcome(error),
            error=type(error).__name__ if error else "",
            duration=self.elapsed,
            queued=self.queued,
            ttft=None if first is None else first - self._arrived,
            stats=stats,
            overhead=self._overhead,
        )

    def _status(self, error: BaseException | None) -> int:
        if isinstance(error, ClientError) or error is None or not self.committed:
            return 200 if error is None else render.answer(error).status
        return 200


def _headers_for(engine: Engine, call: Call) -> list[tuple[str, str]]:
    forwards = KINDS[engine.kind].forwards
    headers = [(name, value) for name, value in call.headers.items() if forwards(name)]
    headers += [("content-type", "application/json"), ("x-request-id", call.request_id)]
    if engine.api_key:
        headers.append(("authorization", f"Bearer {engine.api_key}"))
    return headers


def _said(response: EngineResponse, name: str) -> str:
    """A header of the engine's as it can be handed on: empty where it is missing, or no plain text."""
    value = response.headers.get(name, "")
    return value if value.isascii() else ""


def _outcome(error: BaseException | None) -> Outcome:
    if error is None:
        return Outcome.OK
    if isinstance(error, RequestError) or (isinstance(error, EngineAnswered) and error.status < 500):
        return Outcome.CLIENT_ERROR
    if isinstance(error, Refused):
        return Outcome.REFUSED
    if isinstance(error, EngineError):
        return Outcome.ENGINE_ERROR
    return Outcome.CLIENT_GONE if isinstance(error, ClientError) else Outcome.INTERNAL
