"""The token buffer: bytes from an engine in, bytes for a client out, fewer events and the same meaning.

A state machine without clock and I/O: time is an argument, in seconds of one monotonic clock. The shell feeds what it
reads, asks `ready` and `wake_at` when to write, takes, and says `finish` when the engine's body is over. It relies on:

- What was received leaves in order, for each choice, before the stream's ending, whatever the ending is.
- Nothing that an engine sends raises. Garbage ends the stream: `complete` is true then, and `failure` says why.
- What is held is bounded: by the window, by `high_water` (see `full`) and, for an unfinished event, by `max_event`.

Endings: an answer that is whole but for its last word gets it; one that is not whole gets one error event, unless the
engine's own or the engine's `[DONE]` has passed; `[DONE]` alone is no answer. What is whole, `endings` knows.
"""

from gateway.buffer.arrivals import count_event, note_arrival
from gateway.buffer.coalesce import NOTHING, STRATEGIES, Window
from gateway.buffer.endings import DIALECTS
from gateway.buffer.outbox import Outbox
from gateway.buffer.unasked import UnaskedUsage
from gateway.errors import EngineAnswered, EngineBroke, EngineTruncated, GatewayError
from gateway.telemetry import FlushReason, StreamStats
from gateway.wire.chunks import DONE, parse
from gateway.wire.sse import Event, SseDecoder

NOT_JSON = "the engine sent something that is not JSON"
NO_FINISH = "the engine's stream ended without a finish"
NO_ANSWER = "the engine's stream ended without an answer"


class TokenBuffer:
    """The buffer of one stream.

    Args:
        strategy: a name in `coalesce.STRATEGIES`.
        window: what may wait, and how long.
        max_event: bytes of the largest event that is accepted.
        high_water: bytes that may wait for a client that does not read before `full` is true.
        dialect: a name in `endings.DIALECTS`.
        hide_usage: the gateway asked for usage and the client did not; see `unasked`.

    Attributes:
        has_event: an event came; a comment is none, nor is a `[DONE]` before anything else.
        opening_error: the data of an error event that came before any other event.
        error_seen: an error event of the engine passed.
        delay: seconds that text may wait.
        complete: nothing more is expected: the last event was seen, or garbage. `finish` is what remains to be called.
        failure: once the stream is finished: None if the answer is whole, else why it is not.
        stats: what was counted.
    """

    def __init__(
        self,
        *,
        strategy: str = "window",
        window: Window = Window(),  # noqa: B008 - it is frozen
        max_event: int = 16 * 2**20,
        high_water: int = 2**20,
        dialect: str = "openai",
        hide_usage: bool = False,
    ) -> None:
        self.stats = StreamStats()
        self.has_event = self.error_seen = self.complete = False
        self.opening_error: bytes | None = None
        self.failure: GatewayError | None = None
        self._decoder = SseDecoder(max_event)
        self._answer = DIALECTS[dialect]()
        self._outbox = Outbox(self.stats)
        self._strategy = STRATEGIES[strategy](window, self._outbox)
        self._unasked = UnaskedUsage() if hide_usage else None
        self._high_water = high_water
        self.delay = window.delay
        self._engine_error: EngineAnswered | None = None
        self._broken: EngineBroke | None = None
        self._whole = self._finished = False

    @property
    def reader_busy(self) -> bool:
        """Whether the client's socket is full, as the shell says. While it is, runs grow instead of leaving."""
        return self._strategy.reader_busy

    @reader_busy.setter
    def reader_busy(self, busy: bool) -> None:
        self._strategy.reader_busy = busy

    @property
    def answer_id(self) -> str | None:
        """By which the answer may be asked for later, once the engine has said it."""
        return self._answer.answer_id

    def error_event(self, error: BaseException) -> bytes:
        """An error event that may follow what the engine has said so far."""
        return self._answer.error_event(error)

    @property
    def full(self) -> bool:
        """Whether so much waits that the engine should not be read."""
        return self._outbox.size + self._strategy.pending > self._high_water

    @property
    def ended(self) -> bool:
        """Whether the stream is finished and everything was taken."""
        return self._finished and not self._outbox.size

    def may_wait(self) -> tuple[int, float]:
        """How much of what comes next need not be fed at once: see `Strategy.may_wait`.

        What an engine says behind its finish is short, and the client waits for it.
        """
        return NOTHING if self._whole or self.complete else self._strategy.may_wait()

    def feed(self, data: bytes, now: float, since: float | None = None) -> bool:
        """Takes bytes of the engine's body, cut anywhere. Whether they ended an event.

        `since`: they were left to wait and can have come at any time from then on; None: they came `now`.
        """
        if self.complete or self._finished or not data:
            return False
        strategy, stats = self._strategy, self.stats
        strategy.since = since
        events = tokens = strategy.match_all(data, now) if self._decoder.is_before(data) else 0
        if tokens:
            stats.events_in += tokens
            stats.tokens += tokens
        else:
            events, tokens = stats.events_in, stats.tokens
            self._feed_events(data, now)
            events, tokens = stats.events_in - events, stats.tokens - tokens
        if tokens:
            note_arrival(stats, tokens, now)
        return events > 0

    def finish(self, now: float, error: GatewayError | None = None) -> None:
        """The engine's body is over; `error` says why, if it did not end as HTTP wants it. Only the first call counts.

        A last event that lacks its blank line counts if it is whole; where it is cut, the answer is not whole.
        """
        if self._finished:
            return
        if not self.complete:
            self._read_rest(now, error)
        if not self._broken:
            self._end(error)

    def ready(self, now: float) -> bool:
        """Whether `take` would give something."""
        return self._outbox.size > 0 or self._strategy.due(now)

    def wake_at(self) -> float | None:
        """When `ready` turns true by itself, if it is not true already; None: not before `feed` or `finish`."""
        return self._strategy.wake_at()

    def take(self, now: float) -> bytes:
        """Everything that is due, encoded: whole events with LF line ends; empty if nothing is."""
        self._strategy.collect(now)
        return self._outbox.take()

    def _feed_events(self, data: bytes, now: float) -> None:
        plain = self._decoder.plain(data)
        if plain is None:
            self._feed_any(data, now)
        else:
            for each in plain:
                if not self._is_known(each, now):
                    self._event(Event(each), now)

    def _feed_any(self, data: bytes, now: float) -> None:
        try:
            events = self._decoder.feed(data)
        except EngineBroke as error:
            self._break(error)
            return
        for event in events:
            if event.name or not self._is_known(event.data, now):
                self._event(event, now)
        if self._decoder.broken:
            self._feed_any(b"", now)

    def _is_known(self, data: bytes, now: float) -> bool:
        """Whether the strategy has taken an unnamed event without its being read."""
        tokens = 0 if self.complete else self._strategy.match(data, now)
        if tokens:
            self.stats.events_in += 1
            self.stats.tokens += tokens
        return tokens > 0

    def _read_rest(self, now: float, error: GatewayError | None) -> None:
        """The event that the body ended in. That it is cut matters only if nothing else explains or excuses it."""
        for event in self._decoder.close():
            if (error or self._answer.whole) and event.data.strip() != DONE and parse(event.data)[0] is None:
                return
            self._event(event, now)

    def _event(self, event: Event, now: float) -> None:
        if self.complete:
            return
        self.stats.events_in += 1
        reading = self._answer.read(event)
        if reading is None:
            self._break(EngineBroke(NOT_JSON))
            return
        self.complete = reading.last
        self._whole = self._answer.whole
        if reading.repeated or (reading.body is None and not self.has_event):
            return
        if reading.error is not None:
            self.error_seen = True
            self._engine_error = reading.error
            if not self.has_event:
                self.opening_error = event.data
        self.has_event = True
        count_event(self.stats, reading.tokens, self._answer.usage, now, text=reading.text)
        if self._unasked is None:
            self._strategy.add(reading, now)
            return
        for each in self._unasked.passed(reading):
            self._strategy.add(each, now)

    def _break(self, error: EngineBroke) -> None:
        """What came cannot be read: the stream ends here, unless it has ended."""
        if self.complete:
            return
        self._broken = error
        self.complete = True
        self._end(error)

    def _end(self, error: GatewayError | None) -> None:
        self._finished = True
        for held in self._unasked.rest() if self._unasked else ():
            self._strategy.add(held, self.stats.last_token_at or 0.0)
        self._strategy.flush(FlushReason.END)
        self.failure = self._verdict(error)
        if self.failure is None:
            if not self.complete and self._answer.closing:
                self._outbox.put(self._answer.closing)
        elif not self.error_seen and not (self.complete and self.has_event and self._broken is None):
            self._outbox.put(self._answer.error_event(self.failure))

    def _verdict(self, error: GatewayError | None) -> GatewayError | None:
        """Why the answer is not whole, or None."""
        if self._engine_error or self._broken:
            return self._engine_error or self._broken
        if self._answer.whole:
            return None
        if not self.has_event:
            return error or EngineTruncated(NO_ANSWER)
        if self.complete:  # its last word came, but not every choice was finished
            return EngineTruncated(NO_FINISH) if self._answer.begun else None
        return error or EngineTruncated(NO_FINISH)
