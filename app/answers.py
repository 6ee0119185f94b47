"""Answers that are not streams: whole ones, and errors in OpenAI's shape; and the headers that each answer has."""

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.hangup import Hangup
from gateway.call import Call
from gateway.errors import ClientError, GatewayError
from gateway.gateway import Gateway, Passage
from gateway.wire import render


def headers_of(passage: Passage) -> dict[str, str]:
    """What an answer says about the way it went: lane, engine, and where the milliseconds until now were spent."""
    elapsed = passage.elapsed
    headers = {
        "x-tokenlane-lane": passage.lane,
        "x-tokenlane-queue-ms": _milliseconds(passage.queued),
        "openai-processing-ms": _milliseconds(elapsed),
    }
    if passage.engine_wait:
        headers["x-tokenlane-overhead-ms"] = _milliseconds(elapsed - passage.queued - passage.engine_wait)
    if passage.engine:
        headers["x-tokenlane-engine"] = passage.engine
    return headers


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


class ErrorResponse(Response):
    """An error as the one table renders it."""

    def __init__(self, error: BaseException, headers: Mapping[str, str] | None = None) -> None:
        answer = render.answer(error)
        super().__init__(
            answer.body,
            answer.status,
            {**(headers or {}), **dict(answer.headers), "cache-control": "no-store"},
            media_type=answer.content_type,
        )


class WholeResponse(Response):
    """The whole answer of one request; the request lives exactly as long as this response is sent."""

    def __init__(self, gateway: Gateway, call: Call) -> None:
        super().__init__()
        self._gateway = gateway
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the request from the queue to its end."""
        await (await self._run(receive))(scope, receive, send)

    async def _run(self, receive: Receive) -> Response:
        hangup = Hangup(receive)
        try:
            async with self._gateway.passage(self._call, hangup.cut) as passage, hangup:
                answer = await passage.fetch()
        except ClientError as error:
            return ErrorResponse(error)  # nobody reads it; the status stands in the access line
        except GatewayError as error:
            return ErrorResponse(error, headers_of(passage))
        return Response(answer.body, answer.status, headers_of(passage), media_type=answer.content_type)
