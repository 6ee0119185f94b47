"""Answers that are not streams: whole ones, and errors; and the headers that each answer has."""

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.hangup import Hangup
from app.line import listen
from gateway.call import Call
from gateway.endpoints import shape_of
from gateway.errors import ClientError, GatewayError, settle
from gateway.gateway import Gateway, Passage
from gateway.wire import render


def headers_of(passage: Passage) -> dict[str, str]:
    """What an answer says about the way it went: lane, engine, and where the milliseconds until now were spent."""
    elapsed, queued, engine = passage.elapsed, passage.queued, passage.engine
    headers = {
        "x-tokenlane-lane": passage.lane,
        "x-tokenlane-queue-ms": _milliseconds(queued),
        "openai-processing-ms": _milliseconds(elapsed),
    }
    if passage.engine_wait:
        headers["x-tokenlane-overhead-ms"] = _milliseconds(elapsed - queued - passage.engine_wait)
    if engine:
        headers["x-tokenlane-engine"] = engine
    return headers


def note(scope: Scope, passage: Passage) -> None:
    """Leaves the report of a request that has ended, and adds to its access line what is known then."""
    report = passage.report
    scope["state"]["report"] = report
    line = scope["state"].get("access")
    if report is None or line is None:
        return
    line |= {"status": report.status, "outcome": str(report.outcome), "lane": report.lane, "engine": report.engine}
    line |= {"stream": report.stream, "queue_ms": _rounded(report.queued), "ttft_ms": _rounded(report.ttft)}
    if report.error:
        line["error"] = report.error
    if report.stats is not None:
        line["tokens"] = report.stats.completion_tokens or report.stats.tokens
        line["events"] = report.stats.events_out


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


class LateResponse(Response):
    """A response that is made while it is sent, so that nothing of what `Response` prepares is known before."""

    background = None

    def __init__(self) -> None:
        """Prepares nothing."""


class ErrorResponse(LateResponse):
    """An error as the one table renders it, in the shape of the API that the request's path belongs to."""

    def __init__(self, error: BaseException, headers: Mapping[str, str] | None = None) -> None:
        self._error = error
        self._more = headers or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        answer = render.answer(self._error, shape_of(scope["path"]))
        headers = {**self._more, **dict(answer.headers), "cache-control": "no-store"}
        settle(self._error)
        await Response(answer.body, answer.status, headers, media_type=answer.content_type)(scope, receive, send)


class WholeResponse(LateResponse):
    """The whole answer of one request; the request lives exactly as long as this response is sent."""

    def __init__(self, gateway: Gateway, call: Call) -> None:
        self._gateway = gateway
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the request from the queue to its end."""
        await (await self._run(scope, receive))(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive) -> Response:
        hangup = Hangup(receive, listen(scope))
        try:
            async with self._gateway.passage(self._call, hangup.cut) as passage, hangup:
                answer = await passage.fetch()
        except ClientError as error:
            return ErrorResponse(error)  # nobody reads it; the status stands in the access line
        except GatewayError as error:
            return ErrorResponse(error, headers_of(passage))
        finally:
            note(scope, passage)
        return Response(answer.body, answer.status, headers_of(passage), media_type=answer.content_type)
