"""The buffer against a model: what goes in, as plain lists, comes out, whatever the interleaving, cut, window and time."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.buffer import STRATEGIES, TokenBuffer, Window
from tests.traces.script import DONE, Json, assemble, chunk, datas, dump, finish, role, text, tool, usage, wire

TEXTS = st.text(alphabet='ab"\\\n\u2028é🚀}{,:', max_size=4)
KINDS = ("content", "reasoning", "reasoning_content", "arguments 0", "arguments 1")


@dataclass
class Style:
    """How an engine writes: which counts come with a chunk, and how it spaces and escapes."""

    token_ids: bool
    logprobs: bool
    totals: bool
    spaced: bool
    extra: Json

    def write(self, body: Json) -> bytes:
        return json.dumps(body).encode() if self.spaced else dump(body)


STYLES = st.builds(
    Style,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([{}, {"x": {"y": 1.5}}, {"z": None}]),
)
_CHOICES = st.integers(0, 2)
_BURSTS = st.tuples(_CHOICES | st.just(0), st.sampled_from(KINDS), st.lists(TEXTS, max_size=6)) | st.tuples(
    _CHOICES, st.sampled_from(["silent", "odd", "unknown", "head"]), st.lists(TEXTS, max_size=2)
)
STEPS = st.lists(_BURSTS, max_size=12).map(
    lambda bursts: [(index, kind, piece) for index, kind, pieces in bursts for piece in pieces]
)
"""What is said: the choice, the kind, the text."""


def said(style: Style, step: tuple[int, str, str], count: int) -> bytes:
    index, kind, piece = step
    if kind == "odd":
        return b'{"choices":[],"note":NaN}'
    if kind == "head":
        return tool(0, None, "id", "f", index)
    if kind == "unknown":
        return chunk({"content": piece, "foo": "bar"}, index)
    delta: Json = {} if kind == "silent" else {kind: piece}
    if kind.startswith("arguments"):
        delta = {"content": None, "tool_calls": [{"index": int(kind[-1]), "function": {"arguments": piece}}]}
    ids: Json = {"token_ids": [count, count]} if style.token_ids else {}
    logprobs: Json = {"logprobs": {"content": [{"token": piece, "logprob": -count / 7}]}} if style.logprobs else {}
    top = {**style.extra, **({"usage": usage(1, count)} if style.totals else {})}
    return style.write(json.loads(chunk(delta, index, top=top, **ids, **logprobs)))


class Shell:
    """Plays events in pieces, with pauses, a client that at times does not read, and takes when it likes."""

    def __init__(self, buffer: TokenBuffer, data: st.DataObject) -> None:
        self.buffer = buffer
        self.out = b""
        self.now = 0.0
        self._draw = data.draw
        self._pause = st.sampled_from([0.0, 0.001, 0.01, 0.05])

    def play(self, stream: bytes) -> bytes:
        cuts = sorted(self._draw(st.lists(st.integers(0, len(stream)), max_size=25)))
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            self.buffer.feed(stream[start:end], self.now)
            if self._draw(st.booleans()):
                self._take()
            self.buffer.reader_busy = self._draw(st.sampled_from([False, False, True]))
            self.now += self._draw(self._pause)
        self.buffer.finish(self.now)
        self.out += self.buffer.take(self.now)
        assert self.buffer.ended
        return self.out

    def _take(self) -> None:
        ready, wake = self.buffer.ready(self.now), self.buffer.wake_at()
        taken = self.buffer.take(self.now)
        assert bool(taken) == ready
        assert ready or wake is None or wake > self.now
        self.out += taken


@settings(max_examples=150, deadline=None)
@given(
    st.data(),
    STYLES,
    STEPS,
    st.sampled_from(sorted(STRATEGIES)),
    st.sampled_from([Window(), Window(1, 0.0), Window(100, 10.0), Window(2, 0.002)]),
)
def test_what_goes_in_comes_out(
    data: st.DataObject, style: Style, steps: list[tuple[int, str, str]], strategy: str, window: Window
) -> None:
    events = [role(index) for index in range(3)]
    events += [said(style, step, count) for count, step in enumerate(steps, 1)]
    events += [*(finish(index=index) for index in range(3)), DONE]
    buffer = TokenBuffer(strategy=strategy, window=window)
    out = datas(Shell(buffer, data).play(wire(*events)))
    assert assemble(out) == assemble(events)
    assert buffer.failure is None
    assert buffer.stats.flush_tokens_sum == buffer.stats.tokens
    if window.tokens == 1:
        assert len(out) >= sum(1 for _, kind, _ in steps if kind in {"odd", "unknown", "head"}) + 7


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(st.tuples(st.integers(0, 2), TEXTS), max_size=30), st.booleans())
def test_completions_come_out_as_they_went_in(
    data: st.DataObject, steps: list[tuple[int, str]], logprobs: bool
) -> None:
    def arrays(piece: str, at: int) -> Any:
        listed = {"text_offset": [at], "token_logprobs": [None], "tokens": [piece], "top_logprobs": [{piece: -0.5}]}
        return {"logprobs": listed} if logprobs else {}

    events = [text(piece, index, **arrays(piece, at)) for at, (index, piece) in enumerate(steps)]
    events += [*(text("", index, "stop") for index in {0, *(index for index, _ in steps)}), DONE]
    assert assemble(datas(Shell(TokenBuffer(), data).play(wire(*events)))) == assemble(events)


@settings(max_examples=100, deadline=None)
@given(st.data(), STYLES, STEPS)
def test_the_short_way_and_the_long_way_say_the_same_at_the_same_time(
    data: st.DataObject, style: Style, steps: list[tuple[int, str, str]]
) -> None:
    short, long = TokenBuffer(strategy="window"), TokenBuffer(strategy="window-json")
    now = 0.0
    for count, step in enumerate(steps, 1):
        event = wire(said(style, step, count))
        for buffer in (short, long):
            buffer.feed(event, now)
        assert short.ready(now) == long.ready(now)
        assert short.ready(now) or short.wake_at() == long.wake_at()
        now += data.draw(st.sampled_from([0.001, 0.01, 0.05]))
        one, other = datas(short.take(now)), datas(long.take(now))
        assert [_parsed(event) for event in one] == [_parsed(event) for event in other]
    assert short.stats == long.stats


def _parsed(event: bytes) -> str:
    return json.dumps(json.loads(event))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.002, 0.004, 0.02, 0.039, 0.1])), max_size=40),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.01, 0.04]),
)
def test_no_token_waits_longer_than_the_window_allows_and_no_event_holds_more(
    arrivals: list[tuple[int, float]], tokens: int, delay: float
) -> None:
    """Case H18: a shell that sleeps until `wake_at`, and a model that knows when each token came."""
    buffer = TokenBuffer(window=Window(tokens, delay))
    now = 0.0
    came: dict[tuple[int, str], float] = {}
    waits: list[float] = []
    first: set[int] = set()

    def take(at: float) -> None:
        for event in datas(buffer.take(at)):
            (choice,) = json.loads(event)["choices"]
            words = choice["delta"]["content"].split()
            assert len(words) <= tokens
            waits.extend(at - came.pop((choice["index"], word)) for word in words)

    for number, (index, pause) in enumerate(arrivals):
        while (wake := buffer.wake_at()) is not None and wake <= now:
            assert not came or min(came.values()) + delay >= wake - 1e-9
            take(wake)
        came[index, str(number)] = now
        buffer.feed(wire(chunk({"content": f"{number} "}, index)), now)
        take(now)
        if index not in first:
            first.add(index)
            assert (index, str(number)) not in came, "the first token leaves at once"
        assert sum(1 for choice, _ in came if choice == index) < tokens
        now += pause
    while (wake := buffer.wake_at()) is not None:
        take(wake)
    assert not came
    assert all(wait <= delay + 1e-9 for wait in waits)
