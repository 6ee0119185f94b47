"""From a generation request to what is to be done for it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.sim.asked import Asked, read_chat, read_completions, read_messages, read_responses
from app.sim.controls import Controls, read_controls
from app.sim.faults import Fault, Scene, afflict, read_fault
from app.sim.http import stream_head
from app.sim.refusals import bad_request
from app.sim.script import answers
from app.sim.seats import Seat
from app.sim.settings import SimSettings
from app.sim.steps import Act, ChunkedGeneration, Generation, Part, Plan, Step, TypedGeneration
from app.sim.wire import ChatWire, CompletionsWire, MessagesWire, ResponsesWire

_READERS = {
    "/v1/chat/completions": read_chat,
    "/v1/completions": read_completions,
    "/v1/responses": read_responses,
    "/v1/messages": read_messages,
}
GENERATING = frozenset(_READERS)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds before the first token and between two tokens, how much the gaps vary, and whether text is stamped."""

    ttft: float = 0.0
    itl: float = 0.0
    jitter: float = 0.0
    seed: int = 0
    stamp: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done for a request; a job without a seat is done at once."""

    plan: Plan
    pace: Pace = field(default_factory=Pace)
    seat: Seat | None = None
    generation: Generation[Any] | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a job depends on besides the request.

    Args:
        ordinal: how many generations there were, this one included.
        now: seconds of the epoch.
        answer_id: of the answer, where the request does not name one.
        close: whether the connection ends with the answer.
        path: what was asked.
    """

    ordinal: int
    now: float
    answer_id: str
    close: bool
    path: str = "/v1/chat/completions"


def read_request(path: str, body: bytes, headers: Mapping[str, str], settings: SimSettings) -> tuple[Asked, Controls]:
    """A request of one of the GENERATING paths.

    Raises:
        Refused: the body or a header is wrong.
    """
    try:
        controls = read_controls(headers, settings)
        if controls.fault:
            read_fault(controls.fault)
    except ValueError as e:
        raise bad_request(str(e)) from None
    return _READERS[path](body, headers, settings), controls


def make_job(
    asked: Asked, controls: Controls, headers: Mapping[str, str], settings: SimSettings, given: Circumstances
) -> Job:
    """The job of a request that was not refused."""
    generation = _generation(asked, controls, settings, given)
    plan = _plan(asked, generation, given)
    fault = _fault(controls, given.ordinal)
    if fault is not None:
        gzip = "gzip" in headers.get("accept-encoding", "")
        plan = afflict(plan, fault, Scene(asked.stream, given.now, given.close, gzip, given.path))
    pace = Pace(controls.ttft, controls.itl, settings.jitter, controls.seed ^ given.ordinal, controls.stamp)
    if any(step.act not in {Act.RAW, Act.EVENT} for step in plan.before):
        return Job(plan, pace)
    return Job(plan, pace, Seat(asked.sequences, asked.priority), generation)


def _fault(controls: Controls, ordinal: int) -> Fault | None:
    """The fault that this request meets, if it is one of those that do."""
    if not controls.fault or random.Random(f"{controls.seed}:{ordinal}").random() >= controls.fault_rate:
        return None
    return read_fault(controls.fault)


def answer_id(asked: Asked, given: Circumstances) -> str:
    """The id of the answer: of a response the one that its body asks for, as at vLLM."""
    if given.path == "/v1/responses":
        return str(asked.fields.get("request_id") or f"resp_{given.answer_id}")
    prefix = {"/v1/completions": "cmpl-"}.get(given.path, "chatcmpl-")
    return prefix + (asked.request_id or given.answer_id)


def _generation(asked: Asked, controls: Controls, settings: SimSettings, given: Circumstances) -> Generation[Any]:
    named, said = answer_id(asked, given), answers(asked, controls, settings.tokens)
    if given.path in _TYPED:
        typed = _TYPED[given.path](asked, named, int(given.now))
        return TypedGeneration(asked, said, typed, controls.burst)
    wire = (ChatWire if asked.chat else CompletionsWire)(asked, named, int(given.now))
    return ChunkedGeneration(asked, said, wire, controls.burst)


_TYPED: dict[str, type[ResponsesWire] | type[MessagesWire]] = {
    "/v1/responses": ResponsesWire,
    "/v1/messages": MessagesWire,
}


def _plan(asked: Asked, generation: Generation[Any], given: Circumstances) -> Plan:
    if not asked.stream:
        return Plan(during=generation.whole(given.now, close=given.close))
    head = Step(Act.RAW, stream_head(given.now, close=given.close), Part.HEAD)
    return Plan([head, *generation.announcement()], generation.stream(), chunked=True)
