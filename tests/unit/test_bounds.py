"""How large a request may be: its head, one header of it, its body."""

from typing import Any

import pytest

from app.bounds import Bounds
from gateway.errors import BodyTooLarge, HeadTooLarge, UnsupportedEncoding

BOUNDS = Bounds(head=100, header=40, body=10, larger={"/files": 1000})


def scope(*headers: tuple[bytes, bytes], path: str = "/a", query: bytes = b"") -> dict[str, Any]:
    return {"path": path, "raw_path": path.encode(), "query_string": query, "headers": list(headers)}


class PlayedServer:
    """ASGI's `receive`: hands over these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def __call__(self) -> Any:
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}


def test_headers_up_to_their_bounds_may_pass() -> None:
    BOUNDS.check_head(scope((b"a", b"x" * 39), (b"b", b"y" * 39), (b"c", b"z" * 17)))


def test_one_header_may_not_be_larger_than_its_bound() -> None:
    with pytest.raises(HeadTooLarge, match="A header"):
        BOUNDS.check_head(scope((b"a", b"1"), (b"b", b"x" * 40)))


@pytest.mark.parametrize("more", [{"query": b"q" * 80}, {"path": "/" + "p" * 80}])
def test_the_line_of_a_request_counts_as_a_part_of_its_head(more: dict[str, Any]) -> None:
    with pytest.raises(HeadTooLarge, match="line and headers"):
        BOUNDS.check_head(scope((b"a", b"x" * 30), **more))


def test_many_small_headers_are_too_large_together() -> None:
    with pytest.raises(HeadTooLarge, match="line and headers"):
        BOUNDS.check_head(scope(*[(b"a", b"x" * 10)] * 10))


def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_comes() -> None:
    with pytest.raises(BodyTooLarge):
        BOUNDS.on_body(scope(), {"content-length": "11"}, PlayedServer())


def test_a_path_can_have_a_bound_of_its_own() -> None:
    server = PlayedServer()
    assert BOUNDS.on_body(scope(path="/files"), {"content-length": "1000"}, server) is server


@pytest.mark.parametrize(
    "headers", [{}, {"content-length": "x"}, {"content-length": "3", "transfer-encoding": "chunked"}]
)
async def test_a_body_whose_length_is_not_known_is_counted_while_it_comes(headers: dict[str, str]) -> None:
    receive = BOUNDS.on_body(scope(), headers, PlayedServer(b"12345", b"67890", b"1"))
    assert (await receive())["body"] == b"12345"
    assert (await receive())["body"] == b"67890"
    with pytest.raises(BodyTooLarge):
        await receive()


@pytest.mark.parametrize("encoding", ["gzip", "br", ""])
def test_a_compressed_body_is_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedEncoding):
        BOUNDS.on_body(scope(), {"content-encoding": encoding}, PlayedServer())


def test_a_body_that_says_that_it_is_as_it_is_may_pass() -> None:
    server = PlayedServer()
    assert BOUNDS.on_body(scope(), {"content-encoding": " Identity ", "content-length": "1"}, server) is server
