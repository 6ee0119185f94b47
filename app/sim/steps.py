"""An answer as a series of steps: what is done, and at which tick.

A tick is the time between two tokens. Tick 0 is the first token. Every choice generates a token a tick.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import orjson

from app.sim.asked import Asked
from app.sim.emission import Choice, Delta
from app.sim.http import Page, json_page, page_head
from app.sim.script import Answer
from app.sim.wire import ChatWire, CompletionsWire, MessagesWire, ResponsesWire

DONE = b"data: [DONE]\n\n"


class Act(Enum):
    """What the server does at a step."""

    EVENT = 1  # write the data as one HTTP chunk
    RAW = 2  # write the data as it is
    QUIET = 3  # a token that nobody is told of yet
    END = 4  # end the answer as HTTP asks for it, and keep the connection
    FIN = 5  # close the connection
    RESET = 6  # reset the connection
    STALL = 7  # keep the connection open and do nothing more


class Part(Enum):
    """What the data of a step is, so that a fault can find it."""

    HEAD = 1
    ROLE = 2
    TOKEN = 3
    FINISH = 4  # also a token
    USAGE = 5
    DONE = 6
    BODY = 7  # of an answer that is not streamed
    OTHER = 8


class Step(NamedTuple):
    """One thing the server does.

    Args:
        act: what.
        data: the bytes, without HTTP framing.
        part: what they are.
        tick: the tokens that come before.
        pause: seconds that this step and all after it come later.
    """

    act: Act
    data: bytes = b""
    part: Part = Part.OTHER
    tick: int = 0
    pause: float = 0.0

    @property
    def is_token(self) -> bool:
        """Whether a fault counts this step as a token event."""
        return self.part is Part.TOKEN or self.part is Part.FINISH


@dataclass(slots=True)
class Plan:
    """An answer.

    Args:
        before: steps at once, also while the request waits for its turn.
        during: steps from the moment that the request runs.
        chunked: whether the answer ends with an empty HTTP chunk.
    """

    before: list[Step] = field(default_factory=list)
    during: Iterator[Step] = field(default_factory=lambda: iter(()))
    chunked: bool = False


class Wire(Protocol):
    """What every wire can do."""

    def whole(self, choices: Sequence[Delta], generated: int, reasoned: int | None) -> dict[str, Any]:
        """The body of an answer that is not streamed."""


W = TypeVar("W", bound=Wire)


class Generation(ABC, Generic[W]):
    """All choices of an answer while they are generated; `abort` ends them at the next step."""

    def __init__(self, asked: Asked, answers: list[Answer], wire: W, burst: int) -> None:
        self._asked = asked
        self._wire = wire
        self._burst = burst
        self._choices = [Choice(i, answer, asked) for i, answer in enumerate(answers)]
        self._thinks = asked.reasoning is not None
        self.aborted = False

    @property
    def finish(self) -> str | None:
        """The finish of the first choice; None while it is generated."""
        return self._choices[0].finish

    @property
    def generated(self) -> int:
        """Tokens of all choices."""
        return sum(choice.generated for choice in self._choices)

    def abort(self) -> None:
        """End every unfinished choice with the finish "abort"."""
        self.aborted = True

    def _rounds(self) -> Iterator[tuple[int, Delta | None]]:
        """The deltas of every tick; None stands for a token that sends nothing."""
        ordinal = 0
        while live := [choice for choice in self._choices if choice.finish is None]:
            for choice in live:
                tick = ordinal // self._burst
                yield tick, choice.abort() if self.aborted else choice.advance()
            ordinal += 1

    def _reasoned(self) -> int | None:
        reasoned = sum(choice.reasoned for choice in self._choices)
        return reasoned if self._thinks or reasoned else None

    def announcement(self) -> list[Step]:
        """The events that do not wait for a token."""
        return []

    @abstractmethod
    def stream(self) -> Iterator[Step]:
        """The events of a stream, and its end."""

    def whole(self, now: float, *, close: bool) -> Iterator[Step]:
        """The same tokens in silence, then head and body."""
        tick, said = 0, []
        for tick, delta in self._rounds():
            yield Step(Act.QUIET, part=Part.TOKEN, tick=tick)
            if delta is not None:
                said.append(delta)
        said.sort(key=lambda delta: delta.index)
        page = json_page(self._wire.whole(said, self.generated, self._reasoned()))
        yield from page_steps(page, now, close=close, tick=tick)


class ChunkedGeneration(Generation[ChatWire | CompletionsWire]):
    """Chunks with choices."""

    def stream(self) -> Iterator[Step]:
        """From the role chunks to `[DONE]` and the end."""
        wire, tick = self._wire, 0
        for choice in self._choices:
            if (opening := wire.opening(choice.index)) is not None:
                yield Step(Act.EVENT, event(opening), Part.ROLE)
        for tick, delta in self._rounds():
            if delta is not None and wire.says(delta):
                part = Part.FINISH if delta.finish else Part.TOKEN
                yield Step(Act.EVENT, event(wire.chunk(delta)), part, tick)
        if self._asked.include_usage:
            yield Step(Act.EVENT, event(wire.usage(self.generated, self._reasoned())), Part.USAGE, tick)
        yield Step(Act.EVENT, DONE, Part.DONE, tick)
        yield Step(Act.END, tick=tick)


class TypedGeneration(Generation[ResponsesWire | MessagesWire]):
    """Named events of one answer."""

    def announcement(self) -> list[Step]:
        """A response is announced before its first token."""
        return [Step(Act.EVENT, named(one), Part.ROLE) for one in self._wire.announcement()]

    def stream(self) -> Iterator[Step]:
        """From the first event with something in it to the terminal one and the end."""
        wire, tick = self._wire, 0
        for one in wire.opening():
            yield Step(Act.EVENT, named(one), Part.ROLE)
        for tick, delta in self._rounds():
            for one in wire.says(delta) if delta is not None else ():
                yield Step(Act.EVENT, named(one), Part.TOKEN if one["type"].endswith("delta") else Part.OTHER, tick)
        *before, last = wire.closing(self.generated, self._reasoned())
        for one in before:
            yield Step(Act.EVENT, named(one), Part.OTHER, tick)
        yield Step(Act.EVENT, named(last), Part.FINISH, tick)
        yield Step(Act.END, tick=tick)


def named(value: dict[str, Any]) -> bytes:
    """A server-sent event that is named after the type in its JSON."""
    return f"event: {value['type']}\n".encode() + event(value)


def event(value: object) -> bytes:
    """A server-sent event that holds JSON."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def page_steps(page: Page, now: float, *, close: bool, tick: int = 0) -> list[Step]:
    """Head, body, end."""
    return [
        Step(Act.RAW, page_head(page, now, close=close), Part.HEAD, tick),
        Step(Act.RAW, page.body, Part.BODY, tick),
        Step(Act.END, tick=tick),
    ]
