"""Types of the fields of a request, read as leniently as vLLM's schema reads them."""

import math
import re
from collections.abc import Callable
from typing import Any

import orjson

from app.sim.refusals import invalid, problem, wrong_media_type

Problem = dict[str, Any]
Reader = Callable[[object, str, list[Problem]], object]
_TRUE = frozenset({"true", "1", "yes", "on", "y", "t"})
_WHOLE = re.compile(r"\s*[+-]?\d{1,18}\s*")
_FALSE = frozenset({"false", "0", "no", "off", "n", "f"})


def read_object(body: bytes, content_type: str | None) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        Refused: the type is not JSON, or the body is empty, malformed or not an object.
    """
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise wrong_media_type()
    if not body:
        raise invalid([problem("missing", "body", "Field required", None)])
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise invalid([problem("json_invalid", f"body.{e.pos}", "JSON decode error", {}, error=e.msg)]) from None
    if not isinstance(value, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise invalid([problem("model_attributes_type", "body", message, value)])
    return value


def _int(value: object, loc: str, problems: list[Problem]) -> int | None:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    message = "Input should be a valid integer"
    if isinstance(value, float):
        problems.append(problem("int_from_float", loc, f"{message}, got a number with a fractional part", value))
    elif not isinstance(value, str):
        problems.append(problem("int_type", loc, message, value))
    elif _WHOLE.fullmatch(value):
        return int(value)
    else:
        problems.append(problem("int_parsing", loc, f"{message}, unable to parse string as an integer", value))
    return None


def _float(value: object, loc: str, problems: list[Problem]) -> float | None:
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        problems.append(problem("float_type", loc, "Input should be a valid number", value))
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    message = "Input should be a valid number, unable to parse string as a number"
    problems.append(problem("float_parsing", loc, message, value))
    return None


def _bool(value: object, loc: str, problems: list[Problem]) -> bool | None:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if isinstance(value, (str, int, float)) and text in _TRUE | _FALSE:
        return text in _TRUE
    kind, tail = ("bool_parsing", ", unable to interpret input") if isinstance(value, str) else ("bool_type", "")
    problems.append(problem(kind, loc, f"Input should be a valid boolean{tail}", value))
    return None


def _typed(kind: type, name: str, article: str) -> Reader:
    def read(value: object, loc: str, problems: list[Problem]) -> object:
        if isinstance(value, kind):
            return value
        problems.append(problem(f"{name}_type", loc, f"Input should be a valid {article}", value))
        return None

    return read


def _interval(value: object, loc: str, problems: list[Problem]) -> int | None:
    number = _int(value, loc, problems)
    if number is not None and number < 1:
        message = "Input should be greater than or equal to 1"
        problems.append(problem("greater_than_equal", loc, message, value, ge=1))
        return None
    return number


_string = _typed(str, "string", "string")
_list = _typed(list, "list", "list")
_dict = _typed(dict, "dict", "dictionary")

_BOTH: dict[str, Reader] = {
    "model": _string,
    "stream": _bool,
    "n": _int,
    "max_tokens": _int,
    "temperature": _float,
    "top_p": _float,
    "seed": _int,
    "priority": _int,
    "stream_options": _dict,
    "stream_interval": _interval,
    "return_token_ids": _bool,
    "return_tokens_as_token_ids": _bool,
    "include_stop_str_in_output": _bool,
    "stop_token_ids": _list,
    "request_id": _string,
    "echo": _bool,
}
CHAT: dict[str, Reader] = _BOTH | {
    "messages": _list,
    "max_completion_tokens": _int,
    "logprobs": _bool,
    "top_logprobs": _int,
    "tools": _list,
    "include_reasoning": _bool,
    "reasoning_effort": _string,
}
COMPLETIONS: dict[str, Reader] = _BOTH | {"logprobs": _int}
RESPONSES: dict[str, Reader] = _BOTH | {
    "max_output_tokens": _int,
    "tools": _list,
    "instructions": _string,
    "previous_response_id": _string,
    "store": _bool,
    "background": _bool,
    "reasoning": _dict,
}
MESSAGES: dict[str, Reader] = _BOTH | {
    "messages": _list,
    "stop_sequences": _list,
    "tools": _list,
    "tool_choice": _dict,
    "thinking": _dict,
}


def read_fields(body: dict[str, Any], schema: dict[str, Reader], required: str) -> dict[str, Any]:
    """The body with every known field in its type; null stays null, unknown fields stay as they are.

    Raises:
        Refused: a field has the wrong type, or the required one is missing.
    """
    problems: list[Problem] = []
    if required not in body:
        problems.append(problem("missing", f"body.{required}", "Field required", body))
    read = dict(body)
    for name, value in body.items():
        if value is not None and name in schema:
            read[name] = schema[name](value, f"body.{name}", problems)
    if problems:
        raise invalid(problems)
    return read
