"""Counts a request against its key: takes before it runs, gives back and charges when it has ended."""

from collections.abc import Awaitable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.answers import ErrorResponse, LateResponse
from gateway.keys import Key
from gateway.quota import Quotas
from gateway.telemetry import KeyRefused, Observer, Outcome, RequestEnded

BUSY = frozenset({429, 503})
"""An engine that had no room: the request has cost nothing."""


class Metered(LateResponse):
    """Another response, within the limits of a key.

    Args:
        inner: what answers; it leaves its report in `scope["state"]["report"]`.
        key: whose request it is.
        quotas: where it is counted.
        observer: told of a refusal.
    """

    def __init__(self, inner: ASGIApp, key: Key, quotas: Quotas, observer: Observer) -> None:
        self._inner = inner
        self._key = key
        self._quotas = quotas
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or refuses with 429; whichever way it ends, what it held is given back."""
        grant = await self._quotas.enter(self._key)
        if grant.refusal is not None:
            self._observer(KeyRefused(grant.refusal.kind))
            await ErrorResponse(grant.refusal, dict(grant.headers()))(scope, receive, send)
            return
        try:
            await self._inner(scope, receive, _with(grant.headers(), send))
        finally:
            report: RequestEnded | None = scope["state"].get("report")
            await self._quotas.leave(grant, tokens=tokens_of(report), asked=_was_asked(report))


def tokens_of(report: RequestEnded | None) -> int:
    """Prompt and completion, as the engine states them; of a stream that was cut, what had come."""
    if report is None or report.stats is None:
        return 0
    stats = report.stats
    completion = stats.tokens if stats.completion_tokens is None else stats.completion_tokens
    return (stats.prompt_tokens or 0) + completion


def _was_asked(report: RequestEnded | None) -> bool:
    return report is not None and report.outcome is not Outcome.REFUSED and report.status not in BUSY


def _with(headers: Sequence[tuple[str, str]], send: Send) -> Send:
    """A `send` that adds headers to the start of the answer."""
    if not headers:
        return send
    raw = [(name.encode(), value.encode()) for name, value in headers]

    def sending(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *raw]
        return send(message)

    return sending
