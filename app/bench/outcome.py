"""What one request was worth."""

from dataclasses import dataclass

OK = "ok"
CONNECT = "connect"
"""No connection: refused, no route, no such name, not in time."""
CUT = "cut"
"""The connection broke, or the answer ended, before it was finished."""
SILENT = "silent"
"""No byte of an answer's text in time."""
STALLED = "stalled"
"""Nothing for too long after the first text."""
ERROR_EVENT = "error event"
MALFORMED = "malformed"
"""Not HTTP, not an event stream, or not JSON."""
NO_DONE = "no [DONE]"
EMPTY = "empty"
"""A whole answer that shows nothing: it would spoil every figure by being quick."""
NOT_SENT = "not sent"
"""An arrival of an open loop that found too many requests open already."""


def status_kind(status: int) -> str:
    """The kind of an answer with an HTTP status other than 200."""
    return f"http {status}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request. Times in seconds.

    Args:
        kind: "ok", or what was wrong.
        prompt: words of the prompt.
        began: when it was first sent, on the clock of the measurement.
        ended: when it was over.
        ttft: from the last sending to the first text, reasoning or tool call; connecting included.
        gaps: between events that show something.
        span: from the first to the last of those.
        tokens: of the answer: as the usage says, else as counted.
        by_usage: the server stated the usage.
        prompt_tokens: as the usage says.
        events: all events but `[DONE]`.
        late: how long after its time it was sent, in an open loop.
        tries: how often it was sent.
        waited: because of `Retry-After`, all in all.
        retry_after: what the last answer asked for, if it was a refusal that named a time.
        detail: what the server said of the error.
    """

    kind: str
    prompt: int = 0
    began: float = 0
    ended: float = 0
    ttft: float | None = None
    gaps: tuple[float, ...] = ()
    span: float = 0
    tokens: int = 0
    by_usage: bool = False
    prompt_tokens: int | None = None
    events: int = 0
    late: float = 0
    tries: int = 1
    waited: float = 0
    retry_after: float | None = None
    detail: str = ""

    @property
    def tpot(self) -> float | None:
        """Seconds a token after the first one; None where there is no second one."""
        return self.span / (self.tokens - 1) if self.tokens > 1 and self.ttft is not None else None
