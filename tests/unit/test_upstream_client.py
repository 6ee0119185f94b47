"""`gateway/upstream/client.py`: the headers of an engine's answer. What it does with sockets is in the contracts."""

from gateway.upstream.client import read_headers


def test_headers_are_known_by_their_names_in_lower_case() -> None:
    assert read_headers([(b"Content-Type", b"a/b"), (b"X-A", b"\xe9")]) == {"content-type": "a/b", "x-a": "é"}


def test_several_headers_of_one_name_are_joined_in_their_order() -> None:
    assert read_headers([(b"a", b"1"), (b"B", b"2"), (b"A", b"3"), (b"a", b"4")]) == {"a": "1, 3, 4", "b": "2"}


def test_an_answer_without_headers_has_none() -> None:
    assert read_headers([]) == {}
