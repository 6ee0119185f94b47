"""What is known of a request from its head to its end: headers, id, status, and the line in the log."""

from typing import Any

import pytest
import structlog

from app.visit import Visit, headers_in


def scope(*headers: tuple[bytes, bytes], path: str = "/v1/models") -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": path, "headers": list(headers)}


class PlayedServer:
    """ASGI's `send`: keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)


def test_of_several_headers_with_one_name_the_first_counts() -> None:
    asked = scope((b"a", b"1"), (b"b", b"\xe9"), (b"a", b"2"))
    assert Visit(asked, PlayedServer()).headers == headers_in(asked) == {"a": "1", "b": "é"}


def test_a_sane_id_of_the_client_is_kept() -> None:
    asked = scope((b"x-request-id", b"mine-1.2:3_4"))
    assert Visit(asked, PlayedServer()).request_id == asked["state"]["request_id"] == "mine-1.2:3_4"


@pytest.mark.parametrize("sent", [b"", b"a b", b"a\xe9", b"x" * 129])
def test_any_other_id_is_replaced(sent: bytes) -> None:
    first, second = (Visit(scope((b"x-request-id", sent)), PlayedServer()).request_id for _ in range(2))
    assert len(first) == 32
    assert first != second


async def test_the_id_goes_out_with_the_start_of_the_answer_and_nothing_else_is_touched() -> None:
    server = PlayedServer()
    visit = Visit(scope((b"x-request-id", b"one")), server)
    own = [(b"a", b"b")]
    body = {"type": "http.response.body", "body": b"x"}
    await visit.send({"type": "http.response.start", "status": 201, "headers": own})
    await visit.send(body)
    assert server.messages[0]["headers"] == [(b"a", b"b"), (b"x-request-id", b"one")]
    assert server.messages[1] is body
    assert visit.status == 201
    assert own == [(b"a", b"b")], "a list of headers that is shared must stay as it is"


async def test_a_request_is_one_line_with_its_status_and_what_its_endpoint_added() -> None:
    asked = scope()
    with structlog.testing.capture_logs() as lines:
        visit = Visit(asked, PlayedServer())
        await visit.send({"type": "http.response.start", "status": 200, "headers": []})
        asked["state"]["access"]["lane"] = "batch"
        visit.write_line()
    (line,) = lines
    assert (line["path"], line["status"], line["lane"]) == ("/v1/models", 200, "batch")
    assert line["request_id"] == visit.request_id


def test_a_client_that_left_before_its_answer_has_the_status_499() -> None:
    with structlog.testing.capture_logs() as lines:
        Visit(scope(), PlayedServer()).write_line()
    assert lines[0]["status"] == 499


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/ui/assets/app.js"])
def test_what_is_asked_all_the_time_gets_no_line(path: str) -> None:
    with structlog.testing.capture_logs() as lines:
        Visit(scope(path=path), PlayedServer()).write_line()
    assert not lines
