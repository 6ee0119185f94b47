"""Input files: what is wrong is told with its line and OpenAI's code, before anything runs."""

import json
from typing import Any

import pytest

from gateway.batch.jobs import NewLine
from gateway.batch.lines import MAX_PROBLEMS, LineReader, Rules, body_of

CHAT = "/v1/chat/completions"
RULES = Rules(CHAT, max_lines=10, line_bytes=3 * 2**20, knows=lambda model: model == "m")


def line(custom_id: Any = "a", **changes: Any) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **changes.pop("body", {})}
    whole = {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body, **changes}
    return json.dumps({key: value for key, value in whole.items() if value is not ...}).encode()


def read(*lines: bytes, rules: Rules = RULES) -> tuple[LineReader, list[NewLine]]:
    reader, start, good = LineReader(rules), 0, []
    for raw in lines:
        if (found := reader.read(raw, start)) is not None:
            good.append(found)
        start += len(raw)
    reader.finish()
    return reader, good


def problems(*lines: bytes, rules: Rules = RULES) -> list[tuple[str, int | None, str | None]]:
    return [(p.code, p.line, p.param) for p in read(*lines, rules=rules)[0].problems]


Told = tuple[str, int | None, str | None]
BAD: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "a duplicate custom_id": ((line("a"), line("b"), line("a")), ("duplicate_custom_id", 3, "custom_id")),
    "an empty custom_id": ((line("a"), line("")), ("invalid_request", 2, "custom_id")),
    "a blank custom_id": ((line(" "),), ("invalid_request", 1, "custom_id")),
    "no custom_id": ((line(...),), ("invalid_request", 1, "custom_id")),
    "a number for custom_id": ((line(7),), ("invalid_request", 1, "custom_id")),
    "a NUL in custom_id": ((line("a\0"),), ("invalid_request", 1, "custom_id")),
    "a custom_id without end": ((line("a" * 513),), ("invalid_request", 1, "custom_id")),
    "a byte order mark": ((b"\xef\xbb\xbf" + line("a"), line("b")), ("invalid_json_line", 1, None)),
    "UTF-16": ((line("a").decode().encode("utf-16"),), ("invalid_json_line", 1, None)),
    "invalid JSON in line 7": ((*(line(str(n)) for n in range(6)), b'{"x":'), ("invalid_json_line", 7, None)),
    "NaN": ((line(body={"temperature": float("nan")}),), ("invalid_json_line", 1, None)),
    "an array": ((b"[1]\n",), ("invalid_json_line", 1, None)),
    "a blank line in the middle": ((line("a"), b"\n", line("b"), line("c")), ("invalid_json_line", 2, None)),
    "stream": ((line(body={"stream": True}),), ("invalid_request", 1, "body.stream")),
    "another url": ((line(url="/v1/completions"),), ("url_mismatch", 1, "url")),
    "no url": ((line(url=...),), ("url_mismatch", 1, "url")),
    "GET": ((line(method="GET"),), ("invalid_request", 1, "method")),
    "no body": ((line().replace(b'"body"', b'"bode"'),), ("invalid_request", 1, "body")),
    "no model": ((line(body={"model": None}),), ("invalid_request", 1, "body.model")),
    "an unknown model": ((line(body={"model": "other"}),), ("model_not_found", 1, "body.model")),
    "two models": ((line("a"), line("b", body={"model": "m:batch"})), ("model_mismatch", 2, "body.model")),
    "a line that is too long": ((line(body={"x": "y" * 3 * 2**20}),), ("invalid_request", 1, None)),
    "one line too many": (tuple(line(str(n)) for n in range(11)), ("too_many_tasks", 11, None)),
    "an empty file": ((), ("empty_file", None, None)),
    "blank lines alone": ((b"\n", b"\r\n"), ("empty_file", None, None)),
}
GOOD: dict[str, tuple[bytes, ...]] = {
    "LF": (line("a") + b"\n", line("b") + b"\n"),
    "CRLF": (line("a") + b"\r\n", line("b") + b"\r\n"),
    "no end of the last line": (line("a") + b"\n", line("b")),
    "blank lines at the end": (line("a") + b"\n", line("b") + b"\n", b"\n", b"  \r\n"),
    "a line of 2 MB": (line("a"), line("b", body={"user": "x" * 2**21})),
    "stream: false": (line("a", body={"stream": False}), line("b")),
    "unknown fields": (line("a", extra=1), line("b", body={"chat_template_kwargs": {}})),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_by_code_line_and_parameter(name: str) -> None:
    """Case H68."""
    lines, expected = BAD[name]
    assert problems(*lines) == [expected]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_is_read_whole(name: str) -> None:
    """Case H68."""
    lines = GOOD[name]
    reader, good = read(*lines)
    assert reader.problems == []
    assert [each.custom_id for each in good] == ["a", "b"]
    assert (good[1].start, good[1].length) == (len(lines[0]), len(lines[1]))
    assert (reader.count, reader.model) == (2, "m")


def test_all_that_is_wrong_with_a_line_is_told_at_once() -> None:
    told = problems(line("", method="PUT", url="x", body={"stream": True, "model": 1}))
    assert [param for _, _, param in told] == ["custom_id", "method", "url", "body.stream", "body.model"]


def test_the_list_of_problems_is_bounded() -> None:
    rules = Rules(CHAT, max_lines=1000)
    assert len(problems(*[b"nonsense"] * 500, rules=rules)) == MAX_PROBLEMS
    assert len(problems(*[b"\n"] * 500, line(), rules=rules)) == MAX_PROBLEMS


def test_after_too_many_lines_nothing_more_is_told() -> None:
    assert [code for code, _, _ in problems(*(line(str(n)) for n in range(30)))] == ["too_many_tasks"]


def test_a_model_is_not_checked_where_it_cannot_be_known() -> None:
    assert problems(line(body={"model": "any"}), rules=Rules(CHAT)) == []


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b'{"custom_id":"a","body":{"t":1.0,"n":1e-7}}', b'{"t":1.0,"n":1e-7}'),
        (b' { "body" : { "a" : [ 1 , 2 ] } , "x" : "}" } \r\n', b'{ "a" : [ 1 , 2 ] }'),
        (b'{"body":{"a":1},"body":{"a":2}}', b'{"a":2}'),
        (b'{"x":"\\"body\\":{}","body":{"s":"\\u00e9 \xc3\xa9"}}', b'{"s":"\\u00e9 \xc3\xa9"}'),
        (b'{"body":{"big":123456789012345678901234567890}}', b'{"big":123456789012345678901234567890}'),
        (b'{"b\\u006fdy":{"a":1}}', b'{"a":1}'),
    ],
)
def test_a_body_goes_to_the_engine_as_it_stands_in_the_file(raw: bytes, body: bytes) -> None:
    """Case H44."""
    assert body_of(raw) == body


def test_a_line_without_a_body_has_none() -> None:
    with pytest.raises(ValueError, match="no body"):
        body_of(b'{"custom_id":"a"}')
