"""What a client asks for, and how it behaves: all of it drawn from one seed. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

MODEL = "gpt-oss-20b"
LANES = ("lowlatency", "batch")
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
BODY_LIMIT = 2**20
"""Bytes of a request body that the gateway is set to take."""


class Behaviour(StrEnum):
    """What the client does with the answer."""

    READ = "reads all"
    SLOW = "reads slowly"
    STOP = "stops reading"
    LEAVE = "leaves"
    LEAVE_AT_ONCE = "leaves at once"
    HALF_CLOSE = "half close"

    @property
    def stays(self) -> bool:
        """Whether the answer has to come to its end."""
        return self in {Behaviour.READ, Behaviour.SLOW}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Args:
        name: unique; it is the request's id and the seed that the request was drawn with.
        after: seconds until the client does what its behaviour says.
        by_reset: whether a client that leaves resets its connection.
        refusal: the statuses one of which the gateway itself answers with; empty: an engine is asked.
    """

    name: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    lane: str
    stream: bool
    fault: str | None = None
    behaviour: Behaviour = Behaviour.READ
    after: float = 0.0
    by_reset: bool = False
    refusal: frozenset[int] = frozenset()


def draw(name: str) -> Ask:
    """The request of this name: the same each time."""
    random = Random(name)
    return _bad(name, random) if random.random() < 0.06 else _good(name, random)


def plain(name: str, lane: str, *, tokens: int, itl_ms: float) -> Ask:
    """A stream without a fault that is read to its end."""
    headers = _headers(name, lane) | {"x-sim-tokens": str(tokens), "x-sim-itl-ms": str(itl_ms), "x-sim-ttft-ms": "20"}
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": name}]}
    return Ask(name, "POST", CHAT, headers, json.dumps(body).encode(), lane, stream=True)


def _headers(name: str, lane: str) -> dict[str, str]:
    return {"content-type": "application/json", "x-request-id": name, "x-tokenlane-lane": lane}


def _good(name: str, random: Random) -> Ask:
    lane = random.choice(LANES)
    path = CHAT if random.random() < 0.75 else COMPLETIONS
    stream = random.random() < 0.8
    body = {"model": MODEL, "stream": stream, **_prompt(name, path, random), **_options(path, random, stream=stream)}
    headers = _headers(name, lane) | _pace(random) | _window(random)
    if "long_event" in headers.get("x-sim-script", ""):
        body.pop("logprobs", None)  # it would list each byte
        body.pop("top_logprobs", None)
    fault = _fault(random, body, stream=stream)
    if fault is not None:
        headers["x-sim-fault"] = fault
    behaviour, after = _behaviour(random, fault, stream=stream)
    raw = json.dumps(body, ensure_ascii=random.random() < 0.5).encode()
    return Ask(name, "POST", path, headers, raw, lane, stream, fault, behaviour, after, random.random() < 0.5)


def _prompt(name: str, path: str, random: Random) -> dict[str, Any]:
    text = f"{name} " + "word " * random.choice([1, 5, 40])
    return {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": text}


def _options(path: str, random: Random, *, stream: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if random.random() < 0.2:
        options["max_tokens"] = random.randint(1, 40)
    if random.random() < 0.2:
        options |= {"n": 2, "temperature": 1.0}
    if random.random() < 0.2:
        options |= {"logprobs": True, "top_logprobs": 2} if path == CHAT else {"logprobs": 2}
    if random.random() < 0.15:
        options["return_token_ids"] = True
    if stream and random.random() < 0.4:
        options["stream_options"] = {"include_usage": True, "continuous_usage_stats": random.random() < 0.3}
    if path == CHAT and random.random() < 0.15:
        properties = {"city": {"type": "string"}, "days": {"type": "array"}, "note": {"enum": ['ça va 🙂 "so"']}}
        function = {"name": "weather", "parameters": {"type": "object", "properties": properties}}
        options["tools"] = [{"type": "function", "function": function}]
    return options


def _pace(random: Random) -> dict[str, str]:
    tokens = random.choice([random.randint(1, 8), random.randint(10, 80), random.randint(20, 80), 250])
    pace = {
        "x-sim-tokens": str(tokens),
        "x-sim-itl-ms": random.choice(["0", "1", "2", "4", "8"]),
        "x-sim-ttft-ms": random.choice(["0", "0", "5", "30", "30", "200", "1500"]),
        "x-sim-seed": str(random.randint(0, 99)),
    }
    if random.random() < 0.1:
        pace["x-sim-burst"] = "5"
    if random.random() < 0.1:
        pace["x-sim-reasoning"] = "12"
    if random.random() < 0.2:
        pace["x-sim-script"] = random.choice(["unicode", "tools", "two_tools", "long_event:70000", "long_event:200000"])
    return pace


def _window(random: Random) -> dict[str, str]:
    wish = random.choice(["", "", "", "tokens=1,delay_ms=0", "tokens=16", "tokens=64,delay_ms=300"])
    return {"x-tokenlane-buffer": wish} if wish else {}


ANYWHERE = ("cut", "cut_event", "reset", "stall", "error_event", "error_event_open", "garbage")
ODD = ("no_done", "no_finish", "only_done", "only_role", "double_finish", "crlf", "cr", "comments", "one_byte")
BEFORE = ("silence_head", "close_before_head", "bad_http", "huge_header", "content_length_lie", "gzip")
STATUSES = ("400", "401", "404", "429", "429;retry-after=2", "500", "503", "503;retry-after=3", "500;body=html")


def _fault(random: Random, body: Mapping[str, Any], *, stream: bool) -> str | None:
    """None for most requests: a lane whose engines all fail is not asked any more."""
    if random.random() < 0.7:
        return None
    kind = random.choice([*ANYWHERE * 2, *ODD, *BEFORE, "slow", "slow", "status", "status"])
    after = random.choice([0, 1, random.randint(2, 30), random.randint(2, 90)])
    if kind in ANYWHERE:
        return f"{kind}@{after}"
    if kind == "slow":
        return f"slow:{random.choice([100, 600, 1300])}@{after}"
    if kind == "status":
        return f"status:{random.choice(STATUSES)}"
    if kind == "double_finish" and ("messages" not in body or "max_tokens" in body):
        return None  # a finish that carries text is text that is said twice
    return kind


def _behaviour(random: Random, fault: str | None, *, stream: bool) -> tuple[Behaviour, float]:
    if fault is not None and not stream and fault.startswith(("stall", "silence")):
        return Behaviour.LEAVE, random.uniform(0, 1.5)  # there is no limit on a whole answer
    choices = [Behaviour.READ] * 12 + [Behaviour.LEAVE] * 4 + list(Behaviour)
    return random.choice(choices), random.choice(
        [random.uniform(0, 0.05), random.uniform(0, 0.5), random.uniform(0, 2)]
    )


def _bad(name: str, random: Random) -> Ask:
    """A request that no engine should see."""
    lane = random.choice(LANES)
    headers = _headers(name, lane)
    body = b'{"stream": true, "messages": [{"role": "user", "content": "x"}]}'
    method, path, changes, body, status = random.choice(_mistakes(body, random))
    return Ask(name, method, path, headers | changes, body, lane, stream=False, refusal=frozenset({status}))


def _mistakes(body: bytes, random: Random) -> Sequence[tuple[str, str, dict[str, str], bytes, int]]:
    junk = random.choice([b"", b"{", b"[]", b"null", b'{"a": NaN}', b'"\xff"', b'{"model": 7}', b'{"stream": "yes"}'])
    return [
        ("POST", CHAT, {}, junk, 400),
        ("POST", COMPLETIONS, {}, junk, 400),
        ("POST", CHAT, {"content-type": "text/plain"}, body, 400),
        ("POST", CHAT, {"x-tokenlane-lane": "none"}, body, 400),
        ("POST", CHAT, {"x-tokenlane-buffer": "tokens=99999"}, body, 400),
        ("POST", CHAT, {"content-encoding": "gzip"}, body, 415),
        ("POST", CHAT, {}, body + b" " * BODY_LIMIT, 413),
        ("GET", CHAT, {}, b"", 405),
        ("POST", "/v1/none", {}, body, 404),
        ("POST", "/abort_requests", {}, body, 404),
    ]
