"""One request, one owner: the order of steps, and the undo of each.

    slot of the lane -> engine of the lane -> connection and head -> first event -> flushes -> end

A `Passage` is that owner; the first three are its `Claim`. Whatever it takes it gives back once, in `close`,
whichever way the request ends: whole, failed, refused, or left by its client at any of the steps.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gateway.buffer import TokenBuffer, Window
from gateway.buffer.endings import DIALECTS
from gateway.call import Call, read_window
from gateway.claim import Claim, said
from gateway.ending import outcome, status
from gateway.errors import Draining, EngineAnswered, EngineBroke, EngineSilent, GatewayError
from gateway.lane import Lane, Limits
from gateway.relay import Deadlines, Relay, Write
from gateway.stored import StoredResponses
from gateway.telemetry import EngineHealthChanged, Observer, RequestEnded, StreamStats, TelemetryEvent
from gateway.ticker import Ticker
from gateway.timeouts import Timeouts
from gateway.upstream.client import EngineClient, EngineResponse
from gateway.wire.shapes import status_of
from gateway.wire.whole import WholeAnswer, read_whole


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
    timeouts: Timeouts = field(init=False)

    def __post_init__(self) -> None:
        engines = [engine for lane in self.lanes.values() for engine in lane.pool.engines]
        self.stored = StoredResponses(self.client, engines)
        self.timeouts = Timeouts(asyncio.get_running_loop())

    def passage(self, call: Call, cut: Callable[[GatewayError], None]) -> "Passage":
        """Owns one request for as long as the block lasts that it is entered with.

        Args:
            call: what the client asks for.
            cut: ends the block from outside with the error it is given: the client does not read, the service ends.
        """
        return Passage(self, call, cut)

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
        engine_wait: seconds that the engine took until its first event, or its whole answer.
        report: how it ended, None until it has.
    """

    def __init__(self, gateway: Gateway, call: Call, cut: Callable[[GatewayError], None]) -> None:
        self.call = call
        self.committed = False
        self.engine_wait = 0.0
        self.report: RequestEnded | None = None
        self._overhead: float | None = None
        self._gateway = gateway
        self._claim = Claim(
            call, lanes=gateway.lanes, client=gateway.client, stored=gateway.stored, observer=gateway.observer
        )
        self._cut = cut
        self._loop = asyncio.get_running_loop()
        self._arrived = self._loop.time()
        self._relay: Relay | None = None
        self._buffer: TokenBuffer | None = None
        self._whole_stats: StreamStats | None = None

    async def __aenter__(self) -> Self:
        self._gateway.live.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close(error)
        finally:
            self._gateway.live.discard(self)

    @property
    def lane(self) -> str:
        """The name of the lane that serves it: the chosen one, or the one that it overflows into."""
        return self._claim.lane.name

    @property
    def queued(self) -> float:
        """Seconds spent waiting for a slot."""
        return self._claim.queued

    @property
    def engine(self) -> str:
        """The name of the engine that answers, empty while there is none."""
        engine = self._claim.engine
        return engine.name if engine else ""

    @property
    def elapsed(self) -> float:
        """Seconds since the request came."""
        return self._loop.time() - self._arrived

    async def open(self) -> None:
        """Returns when the engine's first event is there; then `pump` writes the stream.

        Raises what prevents it: Refused, an EngineError (with the status of an error event that comes first).
        """
        window = read_window(self.call.headers.get("x-tokenlane-buffer"), self._claim.lane.window)
        await self._claim.enter()
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
        await self._claim.enter()
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
        return WholeAnswer(response.status, read.body, said(response, "content-type") or "application/json")

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
        if error is None and self._buffer is not None:
            error = self._buffer.failure
        self._claim.release(error)
        self.report = self._report(error)
        self._gateway.observer(self.report)

    async def _ask(self, limit: float) -> EngineResponse:
        """The head of a good answer. From outside it ends as the client's leaving does, by `cut`."""
        timeout = self._gateway.timeouts.call_later(limit, self._fell_silent)
        try:
            return await self._claim.ask()
        finally:
            timeout.cancel()

    def _fell_silent(self) -> None:
        self._cut(EngineSilent("The engine gave no first token in time."))

    def _new_buffer(self, window: Window) -> TokenBuffer:
        endpoint, limits = self.call.endpoint, self._gateway.limits
        return TokenBuffer(
            strategy=self._claim.lane.strategy if endpoint.merges else "passthrough",
            window=window,
            max_event=limits.event,
            high_water=limits.high_water,
            dialect=endpoint.dialect or "openai",
            hide_usage=self.call.hides_usage,
        )

    def _remember(self, answer_id: str | None) -> None:
        engine = self._claim.engine
        if self.call.endpoint.keeps and answer_id is not None and engine is not None:
            self._gateway.stored.remember(answer_id, engine)

    def _note_overhead(self) -> None:
        self._overhead = max(0.0, self.elapsed - self.queued - self.engine_wait)

    def _report(self, error: BaseException | None) -> RequestEnded:
        stats = self._buffer.stats if self._buffer is not None else self._whole_stats
        first = stats.first_token_at if stats is not None else None
        return RequestEnded(
            endpoint=self.call.endpoint.path,
            lane=self.lane,
            engine=self.engine,
            stream=self.call.stream,
            status=status(error, committed=self.committed),
            outcome=outcome(error),
            error=type(error).__name__ if error else "",
            duration=self.elapsed,
            queued=self.queued,
            ttft=None if first is None else first - self._arrived,
            stats=stats,
            overhead=self._overhead,
        )
