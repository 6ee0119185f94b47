"""One answer: bytes and the times at which they came in, its marks out. No I/O; time is an argument.

TTFT stops at the first event that shows something: text, reasoning, or a piece of a tool call. Neither a comment nor
the chunk with the role alone does. Events that arrive in one piece have the same time, so the gap between them is 0:
that is what their reader sees.
"""

from app.bench.outcome import CUT, EMPTY, ERROR_EVENT, MALFORMED, NO_DONE, OK, SILENT, STALLED, status_kind
from gateway.errors import EngineBroke
from gateway.upstream.answer import Answer
from gateway.wire.chunks import DONE, Json, choices_of, error_of, has_text, listed_tokens, parse, totals_of
from gateway.wire.sse import SseDecoder

KEPT = 4096
"""Bytes that are kept of an answer which is no stream."""
DETAIL = 200
"""Characters of an error that are told."""


class Reading:
    """The state of one answer, from the sending of its request.

    Attributes:
        first, last: when the first and the latest event came that shows something.
        gaps: seconds between such events.
        events: all events but `[DONE]`.
    """

    __slots__ = (
        "_answer",
        "_counted",
        "_decoder",
        "_done",
        "_error",
        "_fault",
        "_finished",
        "_kept",
        "_stopped",
        "_streams",
        "_usage",
        "events",
        "first",
        "gaps",
        "last",
        "sent",
    )

    def __init__(self, sent: float) -> None:
        self.sent = sent
        self.first: float | None = None
        self.last = sent
        self.gaps: list[float] = []
        self.events = 0
        self._error = b""
        self._answer = Answer(max_head=65536)
        self._decoder = SseDecoder()
        self._streams: bool | None = None
        self._kept = b""
        self._counted = 0
        self._usage: tuple[int | None, int | None] = (None, None)
        self._finished = self._done = False
        self._fault: str | None = None
        self._stopped = False

    @property
    def started(self) -> bool:
        """A byte has come."""
        return self._answer.started

    @property
    def stale(self) -> bool:
        """The peer closed before any byte: on a kept connection, it was closing when the request was sent."""
        return not self.started and self._answer.error is not None

    @property
    def over(self) -> bool:
        """Nothing more is to come, or nothing more is of interest."""
        return self._answer.over or self._stopped

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""
        return self._answer.reusable and not self._stopped

    @property
    def status(self) -> int:
        """Of the answer; 0 until its head has come."""
        return self._answer.status

    @property
    def content(self) -> bytes:
        """The start of an answer that is no stream."""
        return self._kept

    @property
    def tokens(self) -> int:
        """Of the answer: as the usage says, else as counted."""
        return self._counted if self._usage[1] is None else self._usage[1]

    @property
    def by_usage(self) -> bool:
        """The server stated how many tokens there were."""
        return self._usage[1] is not None

    @property
    def prompt_tokens(self) -> int | None:
        """As the usage says."""
        return self._usage[0]

    @property
    def detail(self) -> str:
        """The start of what the server said of an error."""
        return (self._error or self._kept).decode("utf-8", "replace")[:DETAIL]

    def received(self, data: bytes, now: float) -> None:
        """Bytes of the connection."""
        body = self._answer.feed(data)
        if body:
            if self._streams is None:
                self._streams = self.status == 200 and (self._header(b"content-type") or "").startswith(
                    "text/event-stream"
                )
            if self._streams:
                self._take(body, now)
            elif len(self._kept) < KEPT:
                self._kept += body[: KEPT - len(self._kept)]

    def closed(self) -> None:
        """The peer closed the connection, in order or not."""
        self._answer.end()

    def due(self, first: float, gap: float) -> float:
        """When to give up: `first` seconds without any text, later `gap` seconds without another one."""
        return self.sent + first if self.first is None else self.last + gap

    def give_up(self) -> None:
        """It took too long."""
        self._fault = self._fault or (SILENT if self.first is None else STALLED)
        self._stopped = True

    def release(self) -> None:
        """Lets go of the parser; called once and last, what was read stays."""
        self._answer.close()

    def retry_after(self) -> float | None:
        """Seconds that a refusal asks to wait; None if it does not say, or says a date."""
        try:
            seconds = float(self._header(b"retry-after") or "")
        except ValueError:
            return None
        return seconds if 0 <= seconds < 86400 else None

    def kind(self) -> str:
        """What it was worth, once it is over: the first of these that fits."""
        error = self._answer.error or ""
        kinds = (
            (status_kind(self.status), self.status not in (0, 200)),
            (self._fault or "", self._fault is not None),
            (MALFORMED, "not HTTP" in error),
            (CUT, bool(error) or not self._answer.complete),
            (MALFORMED, not self._streams),
            (CUT, not self._finished),
            (NO_DONE, not self._done),
            (EMPTY, self.first is None),
        )
        return next((kind for kind, fits in kinds if fits), OK)

    def _header(self, name: bytes) -> str | None:
        for other, value in self._answer.headers:
            if other.lower() == name:
                return value.decode("latin-1").strip()
        return None

    def _take(self, body: bytes, now: float) -> None:
        plain = self._decoder.plain(body)
        if plain is None:
            try:
                plain = [event.data for event in self._decoder.feed(body)]
            except EngineBroke:
                self._malformed()
                return
        for data in plain:
            self._event(data, now)

    def _event(self, data: bytes, now: float) -> None:
        if data == DONE:
            self._done = True
            return
        self.events += 1
        body, _ = parse(data)
        if body is None:
            self._malformed()
        elif error_of(body, data) is not None:
            self._fault = ERROR_EVENT
            self._error = data
        else:
            self._chunk(body, now)

    def _malformed(self) -> None:
        self._fault = self._fault or MALFORMED
        self._stopped = True

    def _chunk(self, body: Json, now: float) -> None:
        usage = body.get("usage")
        if isinstance(usage, dict):
            self._usage = totals_of(usage)
        for _, choice in choices_of(body):
            text = has_text(choice)
            listed = listed_tokens(choice)
            self._counted += int(text) if listed is None else listed
            if text:
                self._show(now)
            if choice.get("finish_reason"):
                self._finished = True

    def _show(self, now: float) -> None:
        if self.first is None:
            self.first = now
        else:
            self.gaps.append(now - self.last)
        self.last = now
