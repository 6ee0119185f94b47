"""`gateway/upstream/outgoing.py`: what leaves for an engine."""

import pytest

from gateway.errors import InvalidRequest
from gateway.upstream.outgoing import fields_of, target_of
from gateway.upstream.outgoing import written as write

URL = "http://engine:8000/v1/models?a=b%20c"


def written(method: str, headers: list[tuple[str, str]], body: bytes = b"") -> tuple[str, list[str], bytes]:
    head, _, rest = b"".join(write(method, target_of(URL), fields_of(headers), body)).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return first, sorted(line.lower() for line in lines), rest


def test_a_request_has_exactly_our_framing() -> None:
    first, lines, body = written("POST", [("Content-Type", "application/json")], b"{}")
    assert first == "POST /v1/models?a=b%20c HTTP/1.1"
    assert lines == [
        "accept-encoding: identity",
        "accept: */*",
        "content-length: 2",
        "content-type: application/json",
        "host: engine:8000",
    ]
    assert body == b"{}"


def test_a_get_has_no_length_and_an_empty_post_has_one_of_zero() -> None:
    assert not any(line.startswith("content-length") for line in written("GET", [])[1])
    assert "content-length: 0" in written("POST", [])[1]


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "CONTENT-LENGTH",
        "Transfer-Encoding",
        "connection",
        "Expect",
        "Accept",
        "Accept-Encoding",
        "TE",
        "Upgrade",
    ],
)
def test_a_header_that_is_ours_cannot_be_set(name: str) -> None:
    """Cases H33 and H34."""
    assert written("POST", [(name, "gzip")], b"{}") == written("POST", [], b"{}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\r\nAuthorization: b"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x\r\ny", "a"),
        ("x y", "a"),
        ("x:", "a"),
        ("", "a"),
        ("x", "\u2028"),
        ("ü", "a"),
    ],
)
def test_a_header_cannot_be_injected(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        fields_of([(name, value)])
    assert value not in str(caught.value) or value == "a"


def test_a_header_of_latin_1_passes() -> None:
    assert "x-name: é\ta" in written("GET", [("X-Name", "é\ta")])[1]


def test_a_large_body_is_not_copied_behind_its_head() -> None:
    body = b"x" * 1_000_000
    pieces = write("POST", target_of(URL), [], body)
    assert len(pieces) == 2
    assert pieces[1] is body


def test_a_small_request_is_one_write() -> None:
    assert len(write("POST", target_of(URL), [], b"{}")) == 1
