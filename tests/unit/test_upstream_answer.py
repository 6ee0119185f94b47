"""`gateway/upstream/answer.py`: answers in any cut."""

import gc
import weakref

import pytest

from gateway.upstream.answer import Answer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
FORMS = {
    "length": HEAD + b"Content-Length: 5\r\n\r\nhello",
    "chunked": CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "extensions and trailers": CHUNKED + b"2;a=b\r\nhe\r\n3;c\r\nllo\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n",
    "after interim answers": INTERIM + HEAD + b"Content-Length: 5\r\n\r\nhello",
}


def fed(data: bytes, *, cut: int = 0, max_head: int = 1000, head_only: bool = False) -> tuple[Answer, bytes]:
    answer = Answer(max_head=max_head, head_only=head_only)
    step = cut or len(data)
    return answer, b"".join(answer.feed(data[at : at + step]) for at in range(0, len(data), step))


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 0])
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_the_same_in_every_cut(form: str, cut: int) -> None:
    answer, body = fed(FORMS[form], cut=cut)
    assert (body, answer.status, answer.complete, answer.reusable, answer.error) == (b"hello", 200, True, True, None)
    assert [name for name, _ in answer.headers][:1] == [b"Content-Type"]
    assert b"X-Sum" not in dict(answer.headers)
    assert b"Link" not in dict(answer.headers)


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_cut_in_two_anywhere_is_the_same(form: str) -> None:
    data = FORMS[form]
    for at in range(1, len(data)):
        answer = Answer(max_head=1000)
        assert answer.feed(data[:at]) + answer.feed(data[at:]) == b"hello"
        assert answer.complete
        assert answer.reusable


def test_pieces_of_one_read_come_as_one() -> None:
    answer = Answer(max_head=1000)
    assert answer.feed(FORMS["chunked"]) == b"hello"


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    answer, body = fed(HEAD + b"\r\nhello")
    assert body == b"hello"
    before = answer.complete
    answer.end()
    assert (before, answer.complete, answer.reusable) == (False, True, False)


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n", HEAD + b"Connection: close\r\n"])
def test_a_connection_that_is_to_be_closed_is_not_used_again(head: bytes) -> None:
    answer, body = fed(head + b"Content-Length: 5\r\n\r\nhello")
    assert (body, answer.complete, answer.reusable) == (b"hello", True, False)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_an_answer_that_has_no_body_by_its_status_is_complete_with_its_head(status: bytes) -> None:
    answer, _ = fed(b"HTTP/1.1 " + status + b"\r\nEtag: x\r\n\r\n")
    assert answer.complete
    assert answer.reusable


def test_an_answer_to_head_has_no_body_whatever_its_length_says() -> None:
    answer, body = fed(HEAD + b"Content-Length: 5\r\n\r\n", head_only=True)
    assert (answer.complete, answer.status, body) == (True, 200, b"")


ANOTHER = HEAD + b"Content-Length: 5\r\n\r\nother"
SURPLUS = {
    "a byte": b"x",
    "half a head": b"HTTP/1.1 200 OK\r\n",
    "no HTTP": b"\0\0",
    "another end": b"0\r\n\r\n",
    "an interim answer": INTERIM,
    "another answer": ANOTHER,
    "two answers, one of them unreadable": ANOTHER + HEAD + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
    "a large head": HEAD + b"X: " + b"x" * 2000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("surplus", SURPLUS.values(), ids=SURPLUS)
@pytest.mark.parametrize("form", FORMS)
def test_bytes_behind_an_answer_spoil_the_connection_and_not_the_answer(form: str, surplus: bytes) -> None:
    answer, body = fed(FORMS[form] + surplus)
    assert (body, answer.complete, answer.error, answer.reusable) == (b"hello", True, None, False)
    assert (answer.status, answer.headers) == (200, fed(FORMS[form])[0].headers)
    later, _ = fed(FORMS[form])
    assert later.feed(surplus) == b""
    assert not later.reusable


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\0" * 20,
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\nhello",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
        HEAD + b"Bad Header\r\n\r\n",
    ],
)
@pytest.mark.parametrize("cut", [1, 0])
def test_what_is_not_an_answer_is_an_error_before_there_is_a_head(data: bytes, cut: int) -> None:
    answer, body = fed(data, cut=cut)
    answer.end()
    assert answer.error is not None
    assert not answer.has_head
    assert not answer.reusable
    assert body == b""


def test_the_bytes_before_an_error_in_the_body_are_kept() -> None:
    answer, body = fed(CHUNKED + b"2\r\nhe\r\nzz\r\nllo")
    assert body == b"he"
    assert answer.has_head
    assert answer.error == "the engine's answer is not HTTP"


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"", b""),
        (b"HTTP/1.1 2", b""),
        (HEAD + b"Content-Length: 5\r\n\r\nhe", b"he"),
        (CHUNKED + b"2\r\nhe\r\n", b"he"),
    ],
)
def test_an_end_before_the_end_is_an_error(data: bytes, body: bytes) -> None:
    answer, got = fed(data) if data else (Answer(max_head=1000), b"")
    answer.end()
    assert got == body
    assert answer.error is not None
    assert answer.error.startswith("the engine closed the connection before")


@pytest.mark.parametrize("cut", [1, 100, 0])
@pytest.mark.parametrize(
    "endless",
    [
        HEAD + b"X: " + b"x" * 2000,
        HEAD + b"X: x\r\n" * 500,
        b"HTTP/1.1 200 " + b"O" * 2000,
        CHUNKED + b"1\r\nx\r\n0\r\n" + b"X: x\r\n" * 500,
        CHUNKED + b"1;" + b"e" * 2000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    ],
)
def test_heads_trailers_and_extensions_have_a_bound(endless: bytes, cut: int) -> None:
    answer, _ = fed(endless, cut=cut)
    assert answer.error == "the head of the engine's answer is too large"


def test_a_large_body_is_not_a_large_head() -> None:
    """Case H56: a chunk of a megabyte."""
    data = CHUNKED + b"%x\r\n" % 1_000_000 + b"x" * 1_000_000 + b"\r\n0\r\n\r\n"
    answer, body = fed(data, cut=999)
    assert len(body) == 1_000_000
    assert answer.complete


def test_a_closed_answer_leaves_no_cycle() -> None:
    class Watched(Answer):
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        answer = Watched(max_head=1000)
        answer.feed(FORMS["chunked"])
        gone = weakref.ref(answer)
        answer.close()
        del answer
        assert gone() is None
    finally:
        gc.enable()
