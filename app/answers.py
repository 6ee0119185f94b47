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
    """What an answer says about the way it went: lane, engine, milliseconds until now."""
    headers = {"x-tokenlane-lane": passage.call.lane, "openai-processing-ms": str(round(passage.elapsed * 1000))}
    if passage.engine:
        headers["x-tokenlane-engine"] = passage.engine
    return headers


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
