"""What each request passes first, with routes that are played: who is let through, and what becomes of a fault."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from app.bounds import Bounds
from app.front import Front
from app.guard import Guard


class PlayedClient:
    """ASGI's `receive` and `send`: an empty body, and what is answered."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def receive(self) -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def header(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    fixed = {"type": "http", "method": "GET", "path": "/x", "raw_path": b"/x", "query_string": b""}
    return {**fixed, "headers": [(b"x-request-id", b"one"), *headers]}


def front(routes: Any, *, access_log: bool = False) -> Front:
    service = SimpleNamespace(keys=SimpleNamespace(ring=SimpleNamespace(open=True)))
    owner = cast("Any", SimpleNamespace(state=SimpleNamespace(service=service)))
    return Front(owner, routes, Guard(), Bounds(1000, 100, 10), {}, access_log=access_log)


async def ok(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_a_request_goes_to_the_routes_and_its_answer_has_its_id() -> None:
    client = PlayedClient()
    await front(ok)(scope(), client.receive, client.send)
    assert client.messages[0]["status"] == 200
    assert client.header == {b"x-request-id": b"one"}


async def test_what_is_no_request_is_handed_on_as_it_is() -> None:
    seen: list[Any] = []

    async def routes(*message: Any) -> None:
        seen.append(message)

    client = PlayedClient()
    lifespan = {"type": "lifespan"}
    await front(routes)(lifespan, client.receive, client.send)
    assert seen == [(lifespan, client.receive, client.send)]
    assert lifespan == {"type": "lifespan"}


async def test_a_head_that_is_too_large_ends_the_connection_and_any_other_refusal_does_not() -> None:
    large, compressed = PlayedClient(), PlayedClient()
    await front(ok)(scope((b"a", b"x" * 100)), large.receive, large.send)
    await front(ok)(scope((b"content-encoding", b"gzip")), compressed.receive, compressed.send)
    assert (large.messages[0]["status"], compressed.messages[0]["status"]) == (431, 415)
    assert large.header[b"connection"] == b"close"
    assert b"connection" not in compressed.header


async def test_a_fault_before_the_answer_is_a_500_that_names_the_request_and_goes_on_to_the_server() -> None:
    async def routes(*_: Any) -> None:
        raise ZeroDivisionError

    client = PlayedClient()
    with structlog.testing.capture_logs() as lines, pytest.raises(ZeroDivisionError):
        await front(routes, access_log=True)(scope(), client.receive, client.send)
    assert client.messages[0]["status"] == 500
    assert client.header[b"x-request-id"] == b"one"
    assert [line["request_id"] for line in lines] == ["one", "one"]
    assert lines[1]["status"] == 500


async def test_a_fault_within_the_answer_sends_nothing_more_and_is_a_500_in_the_log() -> None:
    async def routes(asked: Any, receive: Any, send: Any) -> None:
        await ok(asked, receive, send)
        raise ZeroDivisionError

    client = PlayedClient()
    with structlog.testing.capture_logs() as lines, pytest.raises(ZeroDivisionError):
        await front(routes, access_log=True)(scope(), client.receive, client.send)
    assert [message["type"] for message in client.messages] == ["http.response.start", "http.response.body"]
    assert [line["status"] for line in lines] == [500]
