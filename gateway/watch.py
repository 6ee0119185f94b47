"""How long one stream may keep somebody waiting, and whose fault it is then. Pure: times are of the caller's clock."""

from dataclasses import dataclass

from gateway.buffer import TokenBuffer
from gateway.errors import ClientTooSlow, EngineSilent, EngineStalled, GatewayError

AFTER_END = 1.0
"""Seconds that an engine has to end its answer after its last event (`[DONE]`, or an error that needs one)."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each thing may take, in seconds.

    Attributes:
        first_token: from the request's leaving to the engine's first event.
        gap: between two events of a stream.
        write: for as long as the client does not read.
        whole: for an answer that is not streamed.
    """

    first_token: float = 300.0
    gap: float = 60.0
    write: float = 30.0
    whole: float = 1800.0


class Watch:
    """Which of the deadlines counts for a stream.

    Attributes:
        last_event: when the engine last said something; the time in which it was not read is not held against it.
        writing_since: since when the client has not read; None: it reads, or nothing was written.
    """

    __slots__ = ("_asked_at", "_limits", "_unsent", "last_event", "writing_since")

    def __init__(self, limits: Deadlines, asked_at: float) -> None:
        """`asked_at`: when the engine was asked."""
        self._limits = limits
        self._asked_at = self.last_event = asked_at
        self.writing_since: float | None = None
        self._unsent = 0

    def wrote(self, now: float, unsent: int) -> None:
        """The client has to take `unsent` bytes from now on."""
        self.writing_since, self._unsent = now, unsent

    def look(self, now: float, unsent: int) -> None:
        """So much is still to be taken: a client that takes a little is slow, but it reads."""
        if self.writing_since is not None and unsent < self._unsent:
            self.writing_since, self._unsent = now, unsent

    def ends(self, buffer: TokenBuffer) -> tuple[float, GatewayError | None]:
        """As things are: when the wait is over, and the error that it is then.

        None: the engine has said its last word, and its end is waited for no longer.
        """
        limits = self._limits
        if self.writing_since is not None:
            return self.writing_since + limits.write, ClientTooSlow("The client did not read for too long.")
        if buffer.error_seen or buffer.complete:
            return self.last_event + AFTER_END, None
        if buffer.has_event:
            return self.last_event + limits.gap, EngineStalled("The engine fell silent in mid-stream.")
        return self._asked_at + limits.first_token, EngineSilent("The engine gave no first token in time.")

    def next_look(self, buffer: TokenBuffer, now: float) -> float:
        """When to look whether it is over: soon enough for a client that stops reading meanwhile."""
        return min(self.ends(buffer)[0], now + self._limits.write)
