"""What a request must give: the simulator's own pure modules play the engine, and the rules of endings are applied.

The rules are those of docs/architecture.md, "Who ends a stream", written down a second time: what was received leaves,
then `[DONE]` if the answer is whole, else one error event; where nothing was received the error is an HTTP status.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import httptools

from app.sim.http import framed
from app.sim.jobs import Circumstances, make_job, read_request
from app.sim.refusals import Refused
from app.sim.settings import SimSettings
from app.sim.steps import Act, Plan
from benchmarks.chaos.asks import Ask
from benchmarks.chaos.reading import DONE, Said, said_by

GATEWAYS_OWN = {401: 502, 403: 502, 407: 502}
"""Statuses of an engine that speak of the gateway's own credentials."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an answer has to be, if nothing befalls its engine and there is room for it.

    Args:
        statuses: one of them.
        said: by a stream.
        endings: how a stream may end: "done", "error", "error done".
        exact: all of `said` has to come; else a beginning of it is enough, as with a reset, which may overtake data:
            then the finish too, and the stream ends with an error.
        whole: the body of an answer that is not streamed, without its time; bytes if it is not JSON.
        retry_after: the engine's own.
    """

    statuses: frozenset[int]
    said: Said
    endings: frozenset[str] = frozenset()
    exact: bool = True
    whole: object = None
    retry_after: str | None = None


class _Played:
    """The bytes of an engine's answer, as an HTTP client reads them."""

    def __init__(self, plan: Plan) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.status = 0
        self.complete = False
        self.act = Act.FIN
        self._parser = httptools.HttpResponseParser(self)
        try:
            for piece in self._bytes(plan):
                self._parser.feed_data(piece)
        except httptools.HttpParserError:
            self.act = Act.FIN

    def _bytes(self, plan: Plan) -> Iterator[bytes]:
        return chain.from_iterable(self._of(step.act, step.data, plan) for step in chain(plan.before, plan.during))

    def _of(self, act: Act, data: bytes, plan: Plan) -> list[bytes]:
        if act is Act.EVENT:
            return [framed(data)]
        if act is Act.RAW:
            return [data]
        if act is not Act.QUIET:
            self.act = act
        return [b"0\r\n\r\n"] if act is Act.END and plan.chunked else []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


def expected(ask: Ask, settings: SimSettings) -> Expected:
    """What the gateway must answer, with engines of these settings."""
    if ask.refusal:
        return Expected(ask.refusal, Said())
    headers = {name: value for name, value in ask.headers.items() if name.startswith("x-sim-")}
    headers |= {"content-type": "application/json", "x-request-id": ask.headers["x-request-id"]}
    try:
        asked, controls = read_request(ask.path, ask.body, headers, settings)
    except Refused as refused:
        return Expected(frozenset({refused.status}), Said())
    job = make_job(asked, controls, headers, settings, Circumstances(1, 0.0, "", close=False, path=ask.path))
    played = _Played(job.plan)
    if not played.status or ask.fault == "huge_header":
        return _failed(played)
    if played.status != 200:
        status = GATEWAYS_OWN.get(played.status, played.status)
        return Expected(frozenset({status}), Said(), retry_after=played.headers.get("retry-after"))
    return _streamed(played) if ask.stream else _whole(played)


def _failed(played: _Played) -> Expected:
    """There was nothing to be sent: a status, or an error event if the stream had to be opened before."""
    status = 504 if played.act is Act.STALL else 502
    return Expected(frozenset({status}), Said(), frozenset({"error"}))


def _whole(played: _Played) -> Expected:
    if not played.complete:
        return _failed(played)
    try:
        body = json.loads(played.body)
    except ValueError:
        return Expected(frozenset({200, 502}), Said(), whole=played.body)
    return Expected(frozenset({200}), Said(), whole=without_time(body))


def without_time(body: dict[str, object]) -> dict[str, object]:
    """A whole answer without the second in which it was made."""
    return {name: value for name, value in body.items() if name != "created"}


def _streamed(played: _Played) -> Expected:
    chunks, last = _readable(played.body)
    if not chunks:
        return replace(_failed(played), statuses=frozenset({500})) if last.startswith("error") else _failed(played)
    said = said_by(chunks)
    ending = last or ("done" if said.whole else "error")
    if last == "garbage":
        ending = "error"
    if played.act is not Act.RESET:
        return Expected(frozenset({200}), said, frozenset({ending}))
    return Expected(frozenset({200}), said, frozenset({ending, "error"}), exact=False)


def _readable(stream: bytes) -> tuple[list[bytes], str]:
    """The chunks before whatever ends them, and that: "done", "error", "error done", "garbage", or nothing."""
    text = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    chunks: list[bytes] = []
    error = ""
    for block in text.split(b"\n\n")[:-1]:
        data = b"\n".join(line[6:] for line in block.split(b"\n") if line.startswith(b"data: "))
        if data == DONE:
            return chunks, f"{error} done".strip()
        if not data:
            continue
        try:
            read = json.loads(data)
        except ValueError:
            return chunks, "garbage"
        if "error" in read:
            error = "error"
        elif not (chunks and data == chunks[-1] and _ends(read)):  # a finish that is said twice is passed on once
            chunks.append(data)
    return chunks, error


def _ends(read: dict[str, Any]) -> bool:
    return any(choice.get("finish_reason") for choice in read["choices"])
