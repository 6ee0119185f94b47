"""Reading and editing request bodies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.wire.request import REMOVE, edit, extend, flag_field, read_object, string_field

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"null",
        b'{"temperature": NaN}',
        b'{"a": Infinity}',
        b'{"a":"\\ud800"}',
        b"\xff",
        b"{} {}",
    ],
    ids=repr,
)
def test_what_is_not_one_json_object_is_refused(body: bytes) -> None:
    """Case H43: a bare NaN in a request is the client's mistake."""
    with pytest.raises(InvalidRequest):
        read_object(body)


def test_nesting_without_end_is_refused_instead_of_crashing() -> None:
    with pytest.raises(InvalidRequest):
        read_object(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        string_field({"model": 7}, "model")
    assert caught.value.param == "model"
    with pytest.raises(InvalidRequest) as caught:
        flag_field({"stream": "yes"}, "stream")
    assert caught.value.param == "stream"


def test_an_absent_or_null_field_is_its_default() -> None:
    assert string_field({}, "model") is string_field({"model": None}, "model") is None
    assert flag_field({}, "stream") is flag_field({"stream": None}, "stream") is False


def test_an_edit_leaves_the_spelling_of_everything_else() -> None:
    """Case H44: numbers keep their format, unknown fields survive."""
    body = b'{ "model" : "m:batch", "seed":9223372036854775807, "t": 1.0, "x":1e-7,"big":98765432109876543210,"u":"\\u00e9" }'
    edited = edit(body, {"model": "m"})
    assert edited == (
        b'{"model" : "m","seed":9223372036854775807,"t": 1.0,"x":1e-7,"big":98765432109876543210,"u":"\\u00e9"}'
    )


def test_a_field_can_be_taken_out_wherever_it_stands() -> None:
    for body in (b'{"t":1,"a":2}', b'{"a":2,"t":1}', b'{"a":2 , "t" : 1 }', b'{"t":1}', b'{"t":1,"t":2,"a":2}'):
        assert "t" not in json.loads(edit(body, {"t": REMOVE}))


def test_a_field_that_is_not_there_is_added() -> None:
    assert json.loads(edit(b"{}", {"priority": 5})) == {"priority": 5}
    assert json.loads(edit(b'{"a":1}', {"priority": 5})) == {"a": 1, "priority": 5}


def test_a_field_that_is_there_twice_is_changed_twice() -> None:
    """No reader that takes the first of the two sees another value than one that takes the last."""
    edited = edit(b'{"model":"a:batch","model":"b:batch"}', {"model": "b"})
    assert edited == b'{"model":"b","model":"b"}'


@given(
    st.dictionaries(st.text(max_size=8), json_values, max_size=6),
    st.dictionaries(st.text(max_size=8), json_values, max_size=3),
    st.booleans(),
)
def test_an_edit_means_what_a_change_of_the_dict_means(
    members: dict[str, Any], changes: dict[str, Any], ascii_only: bool
) -> None:
    body = json.dumps(members, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        read_object(body)
        json.dumps(changes, ensure_ascii=False).encode()
    except (InvalidRequest, UnicodeEncodeError):
        return  # surrogates: refused before any edit
    try:
        edited = edit(body, changes)
    except TypeError:
        return  # an integer beyond 64 bits is never a value that the gateway puts in
    assert json.loads(edited) == {**members, **changes}


@pytest.mark.parametrize(
    ("body", "extended"),
    [
        (b"{}", b'{"a":1}'),
        (b" { } \n", b' {"a":1}'),
        (b'{"b":"{"}', b'{"b":"{","a":1}'),
        (b'{"b":{}}', b'{"b":{},"a":1}'),
        (b'{"b":1.0 }\n', b'{"b":1.0,"a":1}'),
    ],
)
def test_fields_are_added_at_the_end_of_a_body(body: bytes, extended: bytes) -> None:
    assert extend(body, {"a": 1}) == extended


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), st.sampled_from([None, 2]))
def test_a_body_with_fields_means_the_dict_with_them(body: dict[str, Any], indent: int | None) -> None:
    raw = json.dumps(body, indent=indent).encode()
    fields = {"longer than any": 0.5, "name there is": -1}
    extended = extend(raw, fields)
    assert json.loads(extended) == body | fields
    assert extended.startswith(raw.rstrip()[:-1].rstrip())
