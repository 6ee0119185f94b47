"""What is fuzzed, and what must hold whatever comes: a failed assertion or any exception is a find."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from gateway.buffer import STRATEGIES, TokenBuffer, Window
from gateway.errors import Draining, EngineBroke, GatewayError
from gateway.wire.sse import Event, SseDecoder
from tests.fuzz.inputs import Case
from tests.fuzz.normal import normal
from tests.properties.test_sse_decoder import naive
from tests.traces.script import DONE, unwire

WINDOWS = (Window(), Window(1, 0.0), Window(64, 1.0), Window(2, 0.002))
ENDS: tuple[GatewayError | None, ...] = (None, EngineBroke("cut"), Draining("stopped", retry_after=1))


def decoder(case: Case) -> None:
    """The decoder reads any stream under any cut as the standard says; a bound on events changes none before it."""
    read, broken = _decoded(case.pieces, 2**24)
    wanted = naive(case.stream)
    assert not broken
    assert read == wanted
    bound = case.random.choice([16, 100, 400])
    read, broken = _decoded(case.pieces, bound)
    assert read == wanted[: len(read)]
    assert broken or read == wanted


def _decoded(pieces: list[bytes], bound: int) -> tuple[list[Event], bool]:
    reader = SseDecoder(bound)
    events: list[Event] = []
    try:
        for piece in pieces:
            plain = reader.plain(piece)
            events += reader.feed(piece) if plain is None else [Event(data) for data in plain]
        events += reader.close()
    except EngineBroke:
        return events, True
    return events, reader.broken


def relay(case: Case) -> None:
    """Whatever an engine sends, whenever, to a client that reads or does not: what came leaves, and one ending."""
    random = case.random
    strategy = random.choice(sorted(STRATEGIES))
    buffer = TokenBuffer(strategy=strategy, window=random.choice(WINDOWS), high_water=random.choice([0, 2**20]))
    out = unwire(_played(buffer, case, random.choice(ENDS)))
    answer = Model(case.stream)
    if answer.needs_ending:
        last = out.pop()
        assert (last == (DONE, b"")) == answer.closes
        assert answer.closes or isinstance(json.loads(last[0])["error"]["message"], str)
    assert normal(out) == normal(answer.events)
    assert (buffer.failure is None) == answer.good
    assert buffer.stats.flush_tokens_sum == buffer.stats.tokens


def _played(buffer: TokenBuffer, case: Case, error: GatewayError | None) -> bytes:
    """What leaves, taken at random times."""
    random, now, out = case.random, 0.0, b""
    for piece in case.pieces:
        buffer.feed(piece, now)
        if random.random() < 0.4:
            ready, wake = buffer.ready(now), buffer.wake_at()
            taken = buffer.take(now)
            assert bool(taken) == ready
            assert ready or wake is None or wake > now
            out += taken
        if random.random() < 0.1:
            buffer.reader_busy = not buffer.reader_busy
        now += random.choice([0.0, 0.0, 0.001, 0.01, 0.05])
    buffer.finish(now, error)
    buffer.feed(b"data: too late\n\n", now)
    buffer.finish(now, None)
    out += buffer.take(now)
    assert buffer.ended
    assert not buffer.full
    assert not buffer.take(now + 10)
    return out


class Model:
    """What a plain list makes of an engine's events.

    Attributes:
        events: those that have to arrive: up to `[DONE]` or to what is no JSON object, an end said twice once.
        done: `[DONE]` came. `error`: an error event came. `whole`: every choice that was seen is finished.
    """

    def __init__(self, stream: bytes) -> None:
        lines = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events = naive(lines)
        finished = len(naive(lines[: lines.rfind(b"\n\n") + 2]))  # one more may lack its empty line
        self.events: list[tuple[bytes, bytes]] = []
        self.done = self.error = self.garbage = False
        self._ends: dict[int, Any] = {}
        self._seen: set[int] = set()
        for number, (data, name) in enumerate(events, 1):
            if data.strip() == DONE:
                self.done = True
                self.events += [(data, name)] if self.events else []
                break
            body = _object(data)
            if body is None:
                self.garbage = number <= finished or not self.whole
                break
            if not self._is_said_twice(body):
                self.events.append((data, name))
                self.error = self.error or bool(body.get("error"))

    @property
    def whole(self) -> bool:
        """Whether every choice that was seen is finished."""
        return bool(self._seen) and self._seen == self._ends.keys()

    @property
    def needs_ending(self) -> bool:
        """Whether the gateway has to say how it ended: the engine has not."""
        return not self.error and not (self.done and self.events)

    @property
    def closes(self) -> bool:
        """Whether `[DONE]` is all that is missing."""
        return self.needs_ending and self.whole and not self.garbage

    @property
    def good(self) -> bool:
        """Whether nothing failed. A stream of usage alone, say, has nothing that could be unfinished."""
        return self.closes or (
            self.done and not self.needs_ending and not self.error and self._seen == self._ends.keys()
        )

    def _is_said_twice(self, body: dict[str, Any]) -> bool:
        listed = body.get("choices")
        choices = (
            [c for c in listed if isinstance(c, dict) and _is_index(c.get("index"))] if isinstance(listed, list) else []
        )
        said = {choice["index"]: _without_text(body, choice) for choice in choices}
        if (
            len(choices) == 1
            and not _has_text(choices[0])
            and said == {i: e for i, e in self._ends.items() if i in said}
        ):
            return True
        self._seen |= said.keys()
        for choice in choices:
            if choice.get("finish_reason"):
                self._ends.setdefault(choice["index"], said[choice["index"]])
        return False


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _is_index(value: object) -> bool:
    return type(value) is int and value >= 0


def _without_text(body: dict[str, Any], choice: dict[str, Any]) -> str:
    rest = {name: value for name, value in choice.items() if name not in {"delta", "text"}}
    return json.dumps({**body, "choices": [rest]}, sort_keys=True)


def _has_text(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    return bool(choice.get("text")) or (isinstance(delta, dict) and any(delta.values()))


TARGETS: Mapping[str, Callable[[Case], None]] = {"decoder": decoder, "relay": relay}
