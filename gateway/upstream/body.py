"""The protocols between who reads an engine and who takes what it says."""

from typing import Protocol

from gateway.errors import EngineError


class Sink(Protocol):
    """Who takes the body of an answer. Called on the event loop, by plain calls, which must not raise."""

    def received(self, data: bytes) -> None:
        """Body bytes as they come, never empty, with the chunked framing removed."""

    def ended(self, error: EngineError | None) -> None:
        """Nothing more will come; called exactly once. None: the framing of the answer is complete."""


class Body(Protocol):
    """The body of an answer that is being read; what a transport hands over in `extensions["body"]`."""

    def attach(self, sink: Sink) -> None:
        """Push the body to `sink` from now on; what came before is handed over inside this call."""

    def pause(self) -> None:
        """Stop reading the engine. Idempotent."""

    def resume(self) -> None:
        """Read the engine again. Idempotent."""

    def leave(self, size: int, rest: float = 0.0) -> None:
        """Fewer than `size` bytes may wait unread, until more come or `look` is called. A hint.

        1: none, but what comes may be pushed a few milliseconds late, with that of others. 0: at once.
        `rest`: once so many are there, what comes in these seconds is wanted with them. A carrier that does not want to
        hold back an end for so long does not.
        """

    def look(self) -> None:
        """Push what waits unread, inside this call."""

    def close(self) -> None:
        """Give the connection back if the answer is complete, else abort it at once. Idempotent; no `ended` follows."""
