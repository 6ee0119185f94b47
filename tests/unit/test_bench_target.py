"""Addresses, the bytes of requests, and what is not written down."""

import pytest

from app.bench.facts import facts, masked
from app.bench.target import target


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_a_url_is_that_of_the_root_with_or_without_v1(url: str) -> None:
    assert target(url).request("GET", "/v1/models").startswith(b"GET /v1/models HTTP/1.1\r\nHost: h:1\r\n")


def test_a_path_before_v1_is_kept_and_ports_have_defaults() -> None:
    assert target("https://h/api/v1").url == "https://h:443/api"
    assert target("http://h").port == 80


def test_an_ipv6_address_keeps_its_brackets() -> None:
    assert b"Host: [::1]:8\r\n" in target("http://[::1]:8").request("GET", "/")


def test_a_body_has_its_length_and_headers_are_sent() -> None:
    request = target("http://h:1", [("Authorization", "Bearer s")], "batch").request("POST", "/v1/x", b"{}")
    head, body = request.split(b"\r\n\r\n")
    assert body == b"{}"
    assert {b"Content-Length: 2", b"Authorization: Bearer s", b"X-Tokenlane-Lane: batch"} <= set(head.split(b"\r\n"))


@pytest.mark.parametrize("url", ["", "h:1", "ftp://h", "http://", "http://h:port", "http://a..b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|Port|label|idna"):
        target(url)


@pytest.mark.parametrize("header", [("a", "b\r\nc: d"), ("", "x"), ("a:b", "c"), ("a", "\u4f60")])
def test_a_header_that_would_break_the_request_is_refused(header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        target("http://h", [header])


def test_a_secret_is_neither_in_the_description_nor_in_the_command_line() -> None:
    told = target("http://h:1", [("Authorization", "Bearer s3cret"), ("X-Tokenlane-Buffer", "tokens=1")]).described
    assert told == "http://h:1, Authorization: ***, X-Tokenlane-Buffer: tokens=1"
    words = [
        "bench",
        "--header",
        "Authorization=s3cret",
        "--a-header=x-key=s3cret",
        "--b-header",
        "X-Tokenlane-Lane=batch",
    ]
    assert masked(words) == [
        "bench",
        "--header",
        "Authorization=***",
        "--a-header=x-key=***",
        "--b-header",
        "X-Tokenlane-Lane=batch",
    ]


def test_the_facts_name_machine_versions_and_command() -> None:
    found = facts(["tokenlane", "bench"])
    assert found["command"] == "tokenlane bench"
    assert found["machine"]["cpu"]
    assert {"tokenlane", "python", "uvloop", "httptools"} == found["versions"].keys()
