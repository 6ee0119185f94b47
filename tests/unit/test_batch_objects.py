"""Lines of output and error files, as OpenAI documents them."""

import json
from pathlib import Path

import pytest

from gateway.batch.jobs import Usage
from gateway.batch.objects import answered, page, unanswered, usage_of


def test_an_answer_stands_in_the_line_as_the_engine_spelt_it() -> None:
    line = answered("batch_req_1", "a", 200, "req_1", b'{"t": 1.0,\n "n": 1e-7, "big": 123456789012345678901}\n')
    assert b"\n" not in line
    assert b'"t": 1.0' in line
    assert b"1e-7" in line
    assert b"123456789012345678901" in line
    body = {"t": 1.0, "n": 1e-7, "big": 123456789012345678901}
    response = {"status_code": 200, "request_id": "req_1", "body": body}
    assert json.loads(line) == {"id": "batch_req_1", "custom_id": "a", "response": response, "error": None}


def test_a_request_without_an_answer_says_why() -> None:
    assert json.loads(unanswered("batch_req_1", "a", "batch_expired", "too late")) == {
        "id": "batch_req_1",
        "custom_id": "a",
        "response": None,
        "error": {"code": "batch_expired", "message": "too late"},
    }


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":5}}', Usage(3, 0, 5, 0)),
        (
            (
                b'{"usage":{"prompt_tokens":3,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":2},'
                b'"completion_tokens_details":{"reasoning_tokens":4}}}'
            ),
            Usage(3, 2, 5, 4),
        ),
        (
            (
                b'{"usage":{"input_tokens":3,"output_tokens":5,"input_tokens_details":{"cached_tokens":2},'
                b'"output_tokens_details":{"reasoning_tokens":4}}}'
            ),
            Usage(3, 2, 5, 4),
        ),
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":null,"prompt_tokens_details":null}}', Usage(3, 0, 0, 0)),
        (b'{"usage":null}', Usage()),
        (b"[]", Usage()),
        (b'{"x":NaN}', Usage()),
    ],
)
def test_tokens_are_counted_in_either_spelling(body: bytes, usage: Usage) -> None:
    assert usage_of(body) == usage


def test_a_page_says_where_the_next_one_begins() -> None:
    assert page([{"id": "a"}, {"id": "b"}], has_more=True) == {
        "object": "list",
        "data": [{"id": "a"}, {"id": "b"}],
        "first_id": "a",
        "last_id": "b",
        "has_more": True,
    }
    assert page([], has_more=False) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_what_is_pure_needs_no_database() -> None:
    """Who makes no batch does not import the database's libraries."""
    root = Path(__file__).parents[2] / "gateway" / "batch"
    heavy = {path.name for path in root.glob("*.py") if "sqlalchemy" in path.read_text()}
    assert heavy == set()
