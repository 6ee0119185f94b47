"""The streamed answer: what is written to a client, and when its status is decided.

The status waits for the engine's first event, so that an error before it is a true HTTP status. If nothing has come
after `commit_after` seconds the stream is opened all the same and comment lines keep the line alive; from then on an
error can only be an event. See docs/adr/0003-true-status-or-keep-alive.md.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from sse_starlette import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from app.answers import ErrorResponse, LateResponse, headers_of, note
from app.begun import Rest, begin
from app.hangup import Hangup
from app.line import abort, line_of
from gateway.call import Call
from gateway.errors import ClientError, GatewayError, settle
from gateway.gateway import Gateway, Passage
from gateway.wire.sse import COMMENT_PING


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds until the stream is opened without a first event, and between two pings (0: none)."""

    commit_after: float = 5.0
    ping: float = 10.0


def _never(_data: bytes) -> bool:
    """A server that can write no piece of a body at once."""
    return False


_OF_SSE_STARLETTE = EventSourceResponse(iter(()), headers={"cache-control": "no-cache"}, sep="\n", ping=0).raw_headers
_HEADERS = [field for field in _OF_SSE_STARLETTE if field[0] != b"connection"]
"""What sse-starlette says of a stream of events: of each the same. The connection is the server's."""


class TokenStream(LateResponse):
    """The event stream of one request; the request lives exactly as long as this response is sent.

    The flushes of the token buffer are written as they are: each is one or more whole events.
    """

    def __init__(self, gateway: Gateway, call: Call, pace: Pace) -> None:
        self._gateway = gateway
        self._call = call
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the request from the queue to its end."""
        line = line_of(scope)
        hangup = Hangup(receive, None if line is None else line.listen)
        body, put, unsent = (send, _never, int) if line is None else (line.send, line.write, line.unsent)
        events = EventWriter(send, body, self._pace, lambda: self._start(passage), put)
        try:
            async with self._gateway.passage(self._call, hangup.cut) as passage, hangup:
                with events:
                    await passage.open()
                    await passage.pump(events.write, unsent)
                    await events.end()
        except ClientError as error:
            await abort(scope, receive)
            settle(error)
        except GatewayError as error:
            if not passage.committed:
                await ErrorResponse(error, headers_of(passage))(scope, receive, send)
            await events.end(passage.error_event(error))
            settle(error)
        except Exception as error:  # ours: the client is told like of any other, and the log too
            await events.end(passage.error_event(error))
            raise
        finally:
            note(scope, passage)

    def _start(self, passage: Passage) -> Message:
        passage.committed = True
        own = [(k.encode(), v.encode()) for k, v in headers_of(passage).items()]
        return {"type": "http.response.start", "status": 200, "headers": _HEADERS + own}


class EventWriter:
    """Writes whole events to one client, and pings while there are none.

    Args:
        send: ASGI's; opens and ends the response.
        body: the same without what surrounds it, for the messages between.
        pace: when the stream is opened without an event, and how often it is pinged.
        start: makes the message that opens the response; called once.
        put: writes a piece of the body at once if that is possible, and tells whether it did.
    """

    def __init__(
        self, send: Send, body: Send, pace: Pace, start: Callable[[], Message], put: Callable[[bytes], bool] = _never
    ) -> None:
        self._send = send
        self._body = body
        self._put = put
        self._pace = pace
        self._start = start
        self._started = self._ended = False
        self._loop = asyncio.get_running_loop()
        self._rest: Rest | None = None
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(self._pace.commit_after, self._quiet)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def write(self, data: bytes) -> Rest | None:
        """Writes some events. What it returns is to be awaited before anything else is written."""
        self._last = self._loop.time()
        if self._started and (self._rest is None or self._rest.done) and data and self._put(data):
            return None
        message = {"type": "http.response.body", "body": data, "more_body": True}
        if self._rest is not None and not self._rest.done:  # a ping that the socket has not taken yet
            self._rest = begin(self._after(self._rest, message))
        else:
            self._rest = begin(self._body(message) if self._started else self._open(message))
        return self._rest

    async def end(self, last: bytes = b"") -> None:
        """Ends the response with some last events, if it was opened and has not ended yet."""
        if self._started and not self._ended:
            self._ended = True
            if self._rest is not None and not self._rest.done:
                await self._rest
            await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def _open(self, message: Message) -> None:
        self._started = True
        await self._send(self._start())
        if not (message["body"] and self._put(message["body"])):
            await self._body(message)

    async def _after(self, rest: Rest, message: Message) -> None:
        await rest
        await self._body(message)

    def _quiet(self) -> None:
        """The timer rang: nothing was written for a while, unless something was."""
        pace, now = self._pace, self._loop.time()
        if self._started and not pace.ping:
            return
        due = self._last + (pace.ping if self._started else pace.commit_after)
        if now >= due:
            if self._rest is None or self._rest.done:
                self.write(COMMENT_PING if pace.ping else b"")
            due = now + pace.ping
        self._timer = self._loop.call_at(due, self._quiet)
