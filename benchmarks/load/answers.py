"""What came of a request: bytes with their times in, a verdict and figures out. Pure, and looked at after the load.

Times are microseconds of `time.monotonic`, the clock by which the engine stamps its tokens.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Any

import orjson

from benchmarks.load.cells import Cell

STAMP = re.compile(rb" @([0-9a-f]{16})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class Wrong(Exception):
    """An answer is not what was asked for; the message says in what."""


@dataclass(slots=True)
class Recording:
    """The pieces of an answer and when each came; `asked` is when the request was written."""

    asked: int
    times: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the engine itself says: the text of prose (None: not compared) and the tokens of the prompt."""

    text: str | None = None
    prompt: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer.

    Attributes:
        wrong: what is wrong with it; None: nothing, and only then the rest counts.
        text, prompt: what it said, and the tokens of its prompt as it stated them.
        tokens, events: of it. `size`: bytes behind its head, framing included.
        wait: milliseconds to the first token, or to the end of a whole answer.
        ages: milliseconds from the engine's sending of each token to the client.
        tail: milliseconds from the engine's sending of the last token to the end of the answer.
    """

    wrong: str | None = None
    text: str = ""
    prompt: int = 0
    tokens: int = 0
    events: int = 0
    size: int = 0
    wait: float = 0.0
    ages: tuple[float, ...] = ()
    tail: float | None = None


def whole_size(head: bytes) -> float | None:
    """How many bytes an answer has in all that begins with these; None: it is chunked; inf: its connection ends it.

    `head` ends with its blank line.
    """
    if _CHUNKED.search(head):
        return None
    length = _LENGTH.search(head)
    return len(head) + int(length[1]) if length else inf


def judge(recording: Recording, cell: Cell, wanted: Wanted) -> Seen:
    """What an answer was worth."""
    try:
        return _seen(recording, cell, wanted)
    except Wrong as wrong:
        return Seen(wrong=str(wrong))


def _seen(recording: Recording, cell: Cell, wanted: Wanted) -> Seen:
    raw = b"".join(recording.pieces)
    head, blank, _ = raw.partition(b"\r\n\r\n")
    begin = len(head) + len(blank)
    if not blank:
        raise Wrong("no answer")
    if head[9:12] != b"200":
        raise Wrong(f"status {head[9:12].decode('latin-1')}: {raw[begin : begin + 120]!r}")
    chunked = whole_size(raw[:begin]) is None
    spans = _spans(raw, begin) if chunked else [(begin, len(raw))]
    body = b"".join(raw[start:end] for start, end in spans)
    text, prompt = _checked(body, cell, wanted)
    arrived = _arrivals(recording, spans)
    end = recording.times[-1]
    stamps = [(int(found[1], 16), arrived(found.end() - 1)) for found in STAMP.finditer(body)] if cell.stamped else []
    return Seen(
        text=text,
        prompt=prompt,
        tokens=cell.tokens,
        events=body.count(b"data: {"),
        size=len(raw) - begin,
        wait=((stamps[0][1] if stamps else end) - recording.asked) / 1000,
        ages=tuple((came - sent) / 1000 for sent, came in stamps),
        tail=(end - stamps[-1][0]) / 1000 if stamps else None,
    )


def _spans(raw: bytes, at: int) -> list[tuple[int, int]]:
    """Where the data of each chunk is."""
    spans = []
    while True:
        line = raw.find(b"\r\n", at)
        try:
            size = int(raw[at:line].partition(b";")[0], 16)
        except ValueError:
            raise Wrong("cut, or no chunk where one should be") from None
        start = line + 2
        at = start + size + 2
        if raw[at - 2 : at] != b"\r\n":
            raise Wrong("cut within a chunk")
        if not size:
            break
        spans.append((start, start + size))
    if at != len(raw):
        raise Wrong("something follows the answer")
    return spans


def _arrivals(recording: Recording, spans: list[tuple[int, int]]) -> Any:
    """A function: when the byte at a place of the body came."""
    ends = list(accumulate(map(len, recording.pieces)))
    places = list(accumulate((end - start for start, end in spans), initial=0))

    def arrived(place: int) -> int:
        span = bisect_right(places, place) - 1
        return recording.times[bisect_right(ends, spans[span][0] + place - places[span])]

    return arrived


def _checked(body: bytes, cell: Cell, wanted: Wanted) -> tuple[str, int]:
    """Text and tokens of the prompt; raises Wrong."""
    text, finish, usage = _read_stream(body) if cell.stream else _read_whole(body)
    if finish != ["length"]:
        raise Wrong(f"finish {finish}")
    if usage.get("completion_tokens") != cell.tokens or wanted.prompt not in (None, usage.get("prompt_tokens")):
        raise Wrong(f"usage {usage}")
    if cell.stamped:
        _check_stamps(text, cell.tokens)
    elif wanted.text not in (None, text):
        raise Wrong(f"text {text[:80]!r}")
    return text, usage["prompt_tokens"]


def _check_stamps(text: str, tokens: int) -> None:
    stamps = STAMP.findall(text.encode())
    if not stamps:
        raise Wrong("no token has its time: does the engine get the request's x-sim headers?")
    if len(stamps) != tokens or len(text) != 18 * tokens or stamps != sorted(stamps):
        raise Wrong(f"{len(stamps)} of {tokens} tokens, or not in order")


def _read_stream(body: bytes) -> tuple[str, list[str], dict[str, Any]]:
    text = ""
    finish: list[str] = []
    usage: dict[str, Any] = {}
    events = [
        line[6:]
        for event in body.replace(b"\r\n", b"\n").split(b"\n\n")
        for line in event.split(b"\n")
        if line[:6] == b"data: "
    ]
    if events[-1:] != [b"[DONE]"]:
        raise Wrong("no [DONE] at its end")
    for data in events[:-1]:
        chunk = _parsed(data)
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            text += choice["delta"].get("content") or ""
            finish += [choice["finish_reason"]] if choice.get("finish_reason") else []
    return text, finish, usage


def _read_whole(body: bytes) -> tuple[str, list[str], dict[str, Any]]:
    answer = _parsed(body)
    choices = answer.get("choices") or ()
    text = "".join(choice["message"]["content"] for choice in choices)
    return text, [choice["finish_reason"] for choice in choices], answer.get("usage") or {}


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Wrong(f"no JSON: {data[:80]!r}") from None
    if not isinstance(body, dict) or "error" in body:
        raise Wrong(f"an error: {data[:200]!r}")
    return body
