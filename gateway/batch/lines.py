"""Reads the lines of an input file: what is wrong with it is found before anything runs. Pure.

A line is a JSON object with `custom_id`, `method`, `url` and `body`; lines end with LF or CRLF; blank lines may stand
at the end alone. The rules are OpenAI's (https://platform.openai.com/docs/guides/batch), and so are the codes that it
and Azure document: invalid_json_line, invalid_request, duplicate_custom_id, url_mismatch, model_mismatch,
model_not_found, too_many_tasks, empty_file.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.batch.jobs import NewLine, Problem
from gateway.batch.prefix import prefix_key

BOM = b"\xef\xbb\xbf"
MAX_PROBLEMS = 100
"""Problems that are told; who has more has the same one many times."""

MAX_CUSTOM_ID = 512
"""Characters of a custom_id."""

_WHITESPACE = " \t\n\r"
_scan_value = json.JSONDecoder(strict=False).raw_decode


@dataclass(frozen=True, slots=True)
class Rules:
    """What lines must keep to.

    `endpoint` is the batch's. `max_lines` and `line_bytes` are bounds. `knows` says whether a model is served; None
    where that cannot be known now.
    """

    endpoint: str
    max_lines: int = 50_000
    line_bytes: int = 20 * 2**20
    knows: Callable[[str], bool] | None = None


@dataclass(slots=True)
class LineReader:
    """Takes the lines of one file in order, then `finish`.

    Attributes:
        problems: what is wrong so far, at most `MAX_PROBLEMS`.
        model: the one that all lines name.
        count: lines that are not blank.
    """

    rules: Rules
    problems: list[Problem] = field(default_factory=list)
    model: str | None = None
    count: int = 0
    _number: int = 0
    _blank: list[int] = field(default_factory=list)
    _seen: dict[str, int] = field(default_factory=dict)

    def read(self, raw: bytes, start: int, length: int | None = None) -> NewLine | None:
        """The line, or None if it is blank or something is wrong with it.

        Args:
            raw: the line with or without its end; of a line above `line_bytes` its head is enough.
            start: where it begins in the file.
            length: bytes of the whole line, where `raw` is not all of it.
        """
        self._number += 1
        if not raw.strip():
            if len(self._blank) < MAX_PROBLEMS:
                self._blank.append(self._number)
            return None
        for number in self._blank:
            self._add("invalid_json_line", "This line is blank; blank lines may stand at the end alone.", line=number)
        self._blank.clear()
        self.count += 1
        if self.count == self.rules.max_lines + 1:
            message = f"The file has more than {self.rules.max_lines} requests."
            self._add("too_many_tasks", message, line=self._number)
        if self.count > self.rules.max_lines:
            return None
        if (length or len(raw)) > self.rules.line_bytes:
            self._add("invalid_request", f"This line is longer than {self.rules.line_bytes} bytes.")
            return None
        return self._read(raw, start)

    def finish(self) -> None:
        """Tells what only the end of the file shows."""
        if not self.count:
            self.problems.append(Problem("empty_file", "The file holds no request."))

    def _read(self, raw: bytes, start: int) -> NewLine | None:
        if raw.startswith(BOM):
            self._add("invalid_json_line", "The file starts with a byte order mark; save it as plain UTF-8.")
            return None
        try:
            line = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            self._add("invalid_json_line", f"This line is not parseable as valid JSON: {error.msg}.")
            return None
        if not isinstance(line, dict):
            self._add("invalid_json_line", "This line is not a JSON object.")
            return None
        before = len(self.problems)
        custom_id = self._custom_id(line.get("custom_id"))
        self._target(line)
        prefix = self._body(line.get("body"))
        if len(self.problems) > before or len(self.problems) >= MAX_PROBLEMS:
            return None
        return NewLine(self._number, custom_id, start, len(raw), prefix)

    def _custom_id(self, custom_id: Any) -> str:
        if not isinstance(custom_id, str) or not custom_id.strip():
            self._add("invalid_request", "custom_id must be a string that is not empty.", param="custom_id")
            return ""
        if len(custom_id) > MAX_CUSTOM_ID or "\0" in custom_id:
            message = f"custom_id must have at most {MAX_CUSTOM_ID} characters, none of them NUL."
            self._add("invalid_request", message, param="custom_id")
            return ""
        if (first := self._seen.setdefault(custom_id, self._number)) != self._number:
            message = f"This custom_id is that of line {first}; each must be unique within a batch."
            self._add("duplicate_custom_id", message, param="custom_id")
        return custom_id

    def _target(self, line: dict[str, Any]) -> None:
        if line.get("method") != "POST":
            self._add("invalid_request", "method must be POST.", param="method")
        if line.get("url") != self.rules.endpoint:
            message = f"url must be the batch's endpoint, {self.rules.endpoint}."
            self._add("url_mismatch", message, param="url")

    def _body(self, body: Any) -> str:
        if not isinstance(body, dict):
            self._add("invalid_request", "body must be a JSON object.", param="body")
            return ""
        if body.get("stream"):
            self._add("invalid_request", "A batch cannot stream; leave stream out.", param="body.stream")
        self._model(body.get("model"))
        return prefix_key(body)

    def _model(self, model: Any) -> None:
        if not isinstance(model, str) or not model:
            self._add("invalid_request", "model must be a string that is not empty.", param="body.model")
            return
        if self.model is None:
            self.model = model
            if self.rules.knows is not None and not self.rules.knows(model):
                self._add("model_not_found", f"The model {model!r} does not exist.", param="body.model")
        elif model != self.model:
            message = f"All requests of a batch must name the same model; the first one names {self.model!r}."
            self._add("model_mismatch", message, param="body.model")

    def _add(self, code: str, message: str, *, line: int | None = None, param: str | None = None) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(code, message, line or self._number, param))


def body_of(raw: bytes) -> bytes:
    """The bytes of `body` in a valid line, as they stand there: numbers keep their spelling.

    Raises ValueError where there is none. Of two the last one counts, as for every other reader.
    """
    text = raw.decode()
    found = None
    at = _skip(text, 0) + 1  # behind the opening brace
    while text[at := _skip(text, at)] != "}":
        name, at = _scan_value(text, at)
        value = _skip(text, _skip(text, at) + 1)  # behind the colon
        _, at = _scan_value(text, value)
        if name == "body":
            found = text[value:at]
        at = _skip(text, at)
        at += text[at] == ","
    if found is None:
        raise ValueError("the line has no body")
    return found.encode()


def _skip(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at
