"""Everything that can go wrong with an engine: a plan becomes another plan.

A fault is written `KIND[@N][;param=value]...`; N is the number of token events after which it happens (0: before
anything but the head). An answer that is not streamed has no events: there a cut, reset or silence comes in
the middle of its body.

    status:CODE             an HTTP error instead of the answer; retry-after=SECONDS, body=html
    error_event             an error event as vLLM writes it, [DONE], the end; without stream a 500
    error_event_open        the same, but the connection stays open and silent
    cut, cut_event, reset   the end of the connection: between events, within one, by RST
    stall, slow:MS          silence for ever; a gap
    garbage                 bytes that are neither SSE nor JSON, then the stream goes on
    comments                a comment before every event
    no_done, no_finish, only_done, only_role, double_finish
    crlf, cr, one_byte      other line ends; a byte a write
    silence_head, close_before_head, bad_http, huge_header, content_length_lie, gzip
"""

from collections.abc import Mapping
from dataclasses import replace

from app.sim.faults.endings import STATUSES, ending, error_instead, instead, status_instead
from app.sim.faults.events import byte_by_byte, commented, double_finish, each, garbage, on_events, once, only, without
from app.sim.faults.heads import content_length_lie, gzip, huge_header
from app.sim.faults.model import Affliction, Fault, Scene
from app.sim.settings import MAX_MS, MAX_TOKENS
from app.sim.steps import Act, Part, Plan, Step

__all__ = ["KINDS", "Fault", "Scene", "afflict", "read_fault"]

KINDS: Mapping[str, Affliction] = {
    "status": status_instead,
    "error_event": error_instead(Step(Act.END)),
    "error_event_open": error_instead(Step(Act.STALL)),
    "cut": ending(Step(Act.FIN)),
    "cut_event": ending(Step(Act.FIN), broken=True),
    "reset": ending(Step(Act.RESET)),
    "stall": ending(Step(Act.STALL)),
    "slow": once(lambda step, fault: (step._replace(pause=fault.value / 1000),)),
    "garbage": garbage,
    "bad_http": instead(Step(Act.RAW, b"SIM/0 this is no HTTP\r\n\r\n", Part.HEAD), Step(Act.FIN)),
    "no_done": without(Part.DONE),
    "no_finish": without(Part.FINISH),
    "only_done": only(Part.DONE),
    "only_role": only(Part.ROLE, Part.DONE),
    "silence_head": instead(Step(Act.STALL)),
    "close_before_head": instead(Step(Act.FIN)),
    "double_finish": each(double_finish),
    "huge_header": huge_header,
    "crlf": each(on_events(lambda data: data.replace(b"\n", b"\r\n"))),
    "cr": each(on_events(lambda data: data.replace(b"\n", b"\r"))),
    "comments": each(commented),
    "one_byte": each(byte_by_byte),
    "content_length_lie": content_length_lie,
    "gzip": gzip,
}


def read_fault(text: str) -> Fault:
    """A fault from its text.

    Raises:
        ValueError: the text is not one.
    """
    first, *rest = text.split(";")
    name, _, after = first.strip().partition("@")
    kind, _, value = name.partition(":")
    if kind not in KINDS:
        raise ValueError(f"unknown fault {kind!r}")
    fault = Fault(kind, _number(after or "0", MAX_TOKENS), _number(value or "0", int(MAX_MS)))
    if (kind == "status" and fault.value not in STATUSES) or (kind == "slow" and not value):
        raise ValueError(f"fault {kind!r} needs a value that it knows, got {value!r}")
    for param in rest:
        fault = _with_param(fault, *param.strip().partition("=")[::2])
    return fault


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12) or int(text) > most:
        raise ValueError(f"a fault counts from 0 to {most}, got {text!r}")
    return int(text)


def _with_param(fault: Fault, name: str, value: str) -> Fault:
    if name == "retry-after" and value.isascii() and value.isprintable():
        return replace(fault, retry_after=value)
    if name == "body" and value in {"html", "json"}:
        return replace(fault, html=value == "html")
    raise ValueError(f"unknown parameter {name!r} of a fault")


def afflict(plan: Plan, fault: Fault, scene: Scene) -> Plan:
    """The plan with the fault in it."""
    return KINDS[fault.kind](plan, fault, scene)
