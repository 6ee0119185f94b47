"""What is wrong with an answer. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.chaos.asks import Ask
from benchmarks.chaos.reading import DONE, Said, events_of, is_equal, is_prefix, said_by
from benchmarks.chaos.truth import Expected, without_time

DOCUMENTED = frozenset({200, 400, 404, 405, 413, 415, 429, 500, 502, 503, 504})
REFUSED = frozenset({"lane_full", "queue_timeout", "no_engine"})
"""Codes of a gateway that has no room or no engine: any request may meet them."""
TROUBLED = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client has seen.

    Args:
        status: 0: no head came.
        complete: the answer ended as HTTP wants it.
        seconds: from the request's leaving to the answer's end.
        given_up: the client waited for too long.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool
    seconds: float
    given_up: bool = False


class Wrong(NamedTuple):
    """One thing that is wrong: its kind, details, and how many characters are missing."""

    kind: str
    details: str
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a verdict depends on besides the request: trouble befell the engine; seconds until a stream is opened."""

    troubled: bool
    commit_after: float


def judge(ask: Ask, truth: Expected, answer: Answer, given: Circumstances) -> list[Wrong]:
    """Everything that is wrong with an answer; empty if nothing is."""
    return list(_judge(ask, truth, answer, given))


def ending_of(answer: Answer) -> str:
    """How a stream ended: "done", "error", "error done", or "none"."""
    try:
        events, _ = events_of(answer.body)
    except ValueError:
        return "none"
    ends = [word for event in events if (word := _ending_word(event))]
    return " ".join(ends) or "none"


def _ending_word(event: bytes) -> str:
    return "done" if event == DONE else "error" if event.lstrip().startswith(b'{"error"') else ""


def _judge(ask: Ask, truth: Expected, answer: Answer, given: Circumstances) -> Iterator[Wrong]:
    if answer.given_up:
        yield Wrong("hung", f"{answer.seconds:.1f} s, {len(answer.body)} bytes")
    elif ask.behaviour.stays and not answer.complete:
        yield Wrong("cut", f"status {answer.status}, {len(answer.body)} bytes")
    if not answer.status:
        return
    if answer.status not in DOCUMENTED:
        yield Wrong("status", str(answer.status))
    if answer.status != 200:
        yield from _refusal(truth, answer, given) if answer.complete else ()
    elif ask.stream:
        yield from _stream(ask, truth, answer, given)
    elif answer.complete:
        yield from _whole(truth, answer)


def _refusal(truth: Expected, answer: Answer, given: Circumstances) -> Iterator[Wrong]:
    try:
        error = json.loads(answer.body)["error"]
        code, texts = error["code"], [error["message"], error["type"]]
    except (ValueError, KeyError, TypeError):
        texts = [None]
    if not all(isinstance(text, str) for text in texts):
        yield Wrong("error body", repr(answer.body[:200]))
        return
    if code in REFUSED:
        waits = answer.headers.get("retry-after", "")
        if not (waits.isdecimal() and int(waits) >= 1):
            yield Wrong("retry-after", f"{code} has {waits!r}")
        return
    if answer.status not in truth.statuses and not (given.troubled and answer.status in TROUBLED):
        yield Wrong("status", f"{answer.status} {code}, expected {sorted(truth.statuses)}")
    elif truth.retry_after and not isinstance(code, str) and answer.headers.get("retry-after") != truth.retry_after:
        yield Wrong("retry-after", f"the engine's own {truth.retry_after!r} is gone")


def _whole(truth: Expected, answer: Answer) -> Iterator[Wrong]:
    if answer.body == truth.whole:
        return  # not JSON, and the engine's own
    try:
        body = json.loads(answer.body)
    except ValueError:
        yield Wrong("json", repr(answer.body[:200]))
        return
    if truth.whole is None:
        yield Wrong("status", f"200, expected {sorted(truth.statuses)}")
    elif without_time(body) != truth.whole:
        yield Wrong("text", f"{body} is not {truth.whole}")


def _stream(ask: Ask, truth: Expected, answer: Answer, given: Circumstances) -> Iterator[Wrong]:
    try:
        events, rest = events_of(answer.body)
    except ValueError as problem:
        yield Wrong("sse", str(problem))
        return
    if rest and answer.complete:
        yield Wrong("sse", f"an event without an end: {rest[:80]!r}")
    ends = [at for at, event in enumerate(events) if _ending_word(event)]
    first = ends[0] if ends else len(events)
    ending = ending_of(answer)
    if any(not _ending_word(event) for event in events[first:]):
        yield Wrong("after the end", f"{ending}: {events[first:]}")
    try:
        said = said_by(event for event in events[:first])
        for event in events[first:]:
            _ = event == DONE or json.loads(event)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        yield Wrong("json", f"{problem!r} in {events[-2:]}")
        return
    if said.late:
        yield Wrong("after the finish", f"{said.late} chunks")
    yield from _text(truth, said)
    yield from _ending(truth, answer, given, said, ending)


def _text(truth: Expected, said: Said) -> Iterator[Wrong]:
    if not is_prefix(said, truth.said):
        yield Wrong("text", f"{said} does not begin {truth.said}")


def _ending(truth: Expected, answer: Answer, given: Circumstances, said: Said, ending: str) -> Iterator[Wrong]:
    """The right ending, exactly one, and nothing lost before it."""
    if ending not in {"done", "error", "error done", "none"}:
        yield Wrong("endings", ending)
    if ending == "none":
        if answer.complete:
            yield Wrong("endings", "none")
        return
    early = not said.choices and 200 not in truth.statuses
    if early and answer.seconds < given.commit_after * 0.9:
        yield Wrong("status", f"200 after {answer.seconds:.2f} s, expected {sorted(truth.statuses)}")
    if given.troubled and ending == "error":
        return
    if ending not in truth.endings and not (early and ending.startswith("error")):
        yield Wrong("endings", f"{ending}, expected {sorted(truth.endings)}")
    elif (truth.exact or ending == "done") and not is_equal(said, truth.said):
        yield Wrong("lost", f"{said} of {truth.said}", max(truth.said.size - said.size, 1))
