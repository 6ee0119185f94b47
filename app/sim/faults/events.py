"""Faults of what is said: events that lack, double, or are none."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from app.sim.faults.model import Affliction, Fault, Scene
from app.sim.http import Page, framed
from app.sim.steps import Act, Part, Plan, Step, page_steps

_GARBAGE = b"\xff\xfe\x00 no event at all \x80\n\n" + b"data: this is not JSON\n\n"


def only(*parts: Part) -> Affliction:
    """Only some parts of the stream, head and end apart."""

    def apply(plan: Plan, fault: Fault, scene: Scene) -> Plan:
        kept = {*parts, Part.HEAD, Part.BODY}
        return replace(plan, during=(s for s in plan.during if s.part in kept or s.act in {Act.QUIET, Act.END}))

    return apply


def without(*parts: Part) -> Affliction:
    """The stream without some parts."""
    return only(*(part for part in Part if part not in parts))


def each(change: Callable[[Step], Iterable[Step]]) -> Affliction:
    """Every step after N token events, head and all, becomes others."""

    def apply(plan: Plan, fault: Fault, scene: Scene) -> Plan:
        return replace(plan, during=_from(plan.during, fault.after, change))

    return apply


def _from(steps: Iterator[Step], after: int, change: Callable[[Step], Iterable[Step]]) -> Iterator[Step]:
    seen = 0
    for step in steps:
        if seen >= after:
            yield from change(step)
        else:
            yield step
        seen += step.is_token


def once(change: Callable[[Step, Fault], Iterable[Step]]) -> Affliction:
    """The step after N token events becomes others."""

    def apply(plan: Plan, fault: Fault, scene: Scene) -> Plan:
        return replace(plan, during=_at(plan.during, fault, change))

    return apply


def _at(steps: Iterator[Step], fault: Fault, change: Callable[[Step, Fault], Iterable[Step]]) -> Iterator[Step]:
    seen, met = 0, False
    for step in steps:
        if seen >= fault.after and not met:
            met = True
            yield from change(step, fault)
        else:
            yield step
        seen += step.is_token


def garbage(plan: Plan, fault: Fault, scene: Scene) -> Plan:
    """Bytes that are no event; without stream they are the body."""
    if scene.stream:
        return once(lambda step, _: (step._replace(act=Act.EVENT, data=_GARBAGE, part=Part.OTHER), step))(
            plan, fault, scene
        )
    return Plan(page_steps(Page(200, _GARBAGE), scene.now, close=scene.close))


def on_events(change: Callable[[bytes], bytes]) -> Callable[[Step], Iterable[Step]]:
    """A change of the bytes of events."""
    return lambda step: (step._replace(data=change(step.data)) if step.act is Act.EVENT else step,)


def commented(step: Step) -> Iterable[Step]:
    """A comment before an event."""
    if step.act is Act.EVENT:
        yield step._replace(data=b": keep-alive\n\n", part=Part.OTHER)
    yield step


def byte_by_byte(step: Step) -> Iterable[Step]:
    """A write for every byte."""
    if step.act not in {Act.EVENT, Act.RAW}:
        return (step,)
    data = framed(step.data) if step.act is Act.EVENT else step.data
    parts = [step.part] + [Part.OTHER] * len(data)
    return [step._replace(act=Act.RAW, data=data[i : i + 1], part=parts[i]) for i in range(len(data))]


def double_finish(step: Step) -> Iterable[Step]:
    """A finish twice."""
    return (step, step) if step.part is Part.FINISH else (step,)
