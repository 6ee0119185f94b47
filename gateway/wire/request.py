"""Request bodies: a strict reading of the few fields the gateway needs, and edits that leave every other byte alone.

A body goes to the engine as it came unless a field has to change; then only that field's bytes change. So numbers keep
their spelling (`1.0`, `1e-7`, integers of any size), and fields that nobody here has heard of survive.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from gateway.errors import InvalidRequest

_WHITESPACE = " \t\n\r"
_scan_value = json.JSONDecoder(strict=False).raw_decode


def read_object(body: bytes) -> dict[str, Any]:
    """The body as a dict; raises InvalidRequest for anything but one JSON object (NaN and lone surrogates too)."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"The body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise InvalidRequest(message) from error
    if not isinstance(read, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return read


def string_field(body: Mapping[str, Any], name: str) -> str | None:
    """A top-level string, None if it is absent or null; raises InvalidRequest for another type."""
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequest(f"'{name}' must be a string.", param=name)


def flag_field(body: Mapping[str, Any], name: str) -> bool:
    """A top-level boolean, False if it is absent or null; raises InvalidRequest for another type."""
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidRequest(f"'{name}' must be a boolean.", param=name)


def edit(body: bytes, changes: Mapping[str, Any]) -> bytes:
    """The body with some top-level fields changed, everything else byte for byte.

    Args:
        body: one JSON object, known to be valid.
        changes: new values; `REMOVE` takes the field out. A field that is not there is added at the end.

    A field that is there twice is changed twice: the last one counts for every reader that is known.
    """
    text = body.decode()
    members = list(_members(text))
    kept = [
        f"{text[m.start : m.value]}{_dump(changes[m.name]) if m.name in changes else text[m.value : m.end]}"
        for m in members
        if changes.get(m.name) is not REMOVE
    ]
    present = {m.name for m in members}
    added = [f"{_dump(k)}:{_dump(v)}" for k, v in changes.items() if k not in present and v is not REMOVE]
    return f"{{{','.join(kept + added)}}}".encode()


def extend(body: bytes, fields: Mapping[str, Any]) -> bytes:
    """The body with fields at its end, everything else byte for byte, however large it is.

    Args:
        body: one JSON object, known to be valid.
        fields: new ones, at least one; none of them is there.
    """
    inner = body.rstrip()[:-1].rstrip()  # without the closing brace
    comma = b"" if inner.endswith(b"{") else b","
    return inner + comma + orjson.dumps(fields)[1:]


REMOVE = object()
"""As a value in `edit`: take the field out."""


class _Member(NamedTuple):
    """Where one member of the object stands: its key from `start`, its value from `value` to `end`."""

    name: str
    start: int
    value: int
    end: int


def _members(text: str) -> Iterator[_Member]:
    at = _skip(text, 0) + 1  # behind the opening brace
    while text[start := _skip(text, at)] != "}":
        name, at = _scan_value(text, start)
        value = _skip(text, _skip(text, at) + 1)  # behind the colon
        _, end = _scan_value(text, value)
        yield _Member(name, start, value, end)
        at = _skip(text, end)
        at += text[at] == ","


def _skip(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()
