"""What is fed to a target: recorded streams that were damaged, cut anywhere, and all of it drawn from one name."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random

from tests.traces.script import body_of, traces

MOST_EVENTS = 40
"""Events that are taken of a recording, so that the long ones do not take all the time."""
WORDS = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"data: ", b"data:", b"data", b"event: x\n", b": c\n", b"id: 1\n"),
    *(b"[DONE]", b"data: [DONE]\n\n", b"data: {}\n\n", b'data: {"error":{"message":"m","code":500}}\n\n'),
    *(
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xff",
        b"\xc3",
        b"\0",
        b'"',
        b"\\",
        b"\\ud800",
        b"\\u0041",
        b"{",
        b"}",
        b"[",
        b"]",
    ),
    *(b"null", b"NaN", b"1e999", b"-1", b"12345678901234567890123", b'"index":1', b'"finish_reason":"stop"', b","),
    *(b'"delta":{}', b'"content":""', b'"usage":null', b'"token_ids":[1]', b'"choices":[]', b'"tool_calls":[]'),
]
"""What a format of lines and JSON may stumble over."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input: `pieces` are the stream as it arrives. `random` goes on where the making of the input ended."""

    name: str
    pieces: list[bytes]
    random: Random

    @property
    def stream(self) -> bytes:
        """The whole stream."""
        return b"".join(self.pieces)


def cases(seed: str) -> Iterator[Case]:
    """One case after another, each from its own name, without end."""
    number = 0
    while True:
        number += 1
        yield case(f"{seed}.{number}")


def case(name: str) -> Case:
    """The case of this name: the same each time."""
    random = Random(name)
    events = list(_events(random.choice(_bodies()), random))
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        _shuffle(events, random)
    whole = b"".join(events)
    if random.random() < 0.2:
        whole = whole.replace(b"\n", random.choice([b"\r\n", b"\r"]))
    if random.random() < 0.2:
        whole = whole.rstrip(b"\r\n") + random.choice([b"", b"\n", b"\r"])
    stream = bytearray(whole)
    for _ in range(random.choice([0, 0, 1, 1, 2, 5])):
        _damage(stream, random)
    return Case(name, _cut(bytes(stream), random), random)


@cache
def _bodies() -> list[bytes]:
    paths = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
    return [body_of(name) for name in traces(*paths)]


def _events(body: bytes, random: Random) -> Iterator[bytes]:
    """Some neighbours of a recording; often its first ones, and often its last ones too."""
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    start = random.choice([0, 0, random.randrange(len(events))])
    count = random.randint(1, MOST_EVENTS)
    yield from events[start : start + count]
    if random.random() < 0.5:
        yield from events[max(len(events) - 3, start + count) :]


def _shuffle(events: list[bytes], random: Random) -> None:
    """Drops, doubles, swaps or brings in an event."""
    at, other = random.randrange(len(events)), random.randrange(len(events))
    match random.randrange(4):
        case 0 if len(events) > 1:
            del events[at]
        case 1:
            events.insert(at, events[other])
        case 2:
            events[at], events[other] = events[other], events[at]
        case _:
            events[at:at] = list(_events(random.choice(_bodies()), random))[:3]


def _damage(stream: bytearray, random: Random) -> None:
    """Changes some bytes."""
    at = random.randint(0, len(stream))
    match random.randrange(5):
        case 0:
            stream[at:at] = random.choice(WORDS)
        case 1:
            word = random.choice(WORDS)
            stream[at : at + len(word)] = word
        case 2:
            del stream[at : at + random.randint(1, 20)]
        case 3:
            stream[at:at] = random.randbytes(random.randint(1, 4))
        case _:
            del stream[at:]


def _cut(stream: bytes, random: Random) -> list[bytes]:
    """In one piece, in events, in a few pieces, in many, or byte by byte."""
    kind = random.randrange(8)
    if kind == 0:
        return [stream]
    if kind == 1:
        return [event + b"\n\n" for event in stream.split(b"\n\n")[:-1]] + [stream.rpartition(b"\n\n")[2]]
    if kind == 2 and len(stream) < 2000:
        return [stream[at : at + 1] for at in range(len(stream))]
    count = random.choice([1, 3, 10, 60, 200])
    edges = sorted({0, len(stream), *(random.randint(0, len(stream)) for _ in range(count))})
    return [stream[start:end] for start, end in pairwise(edges)]
