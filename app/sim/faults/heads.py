"""Faults of HTTP: heads that are too large, that lie, or that announce a coding."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from app.sim.faults.model import Fault, Scene
from app.sim.http import Page, page_head, with_header, without_header
from app.sim.steps import Act, Part, Plan, Step

_LIE = 1_000_000
_HUGE = 200_000


def huge_header(plan: Plan, fault: Fault, scene: Scene) -> Plan:
    """One header line that is larger than clients take."""
    return _on_head(plan, lambda head: with_header(head, "x-huge", "x" * _HUGE))


def _on_head(plan: Plan, change: Callable[[bytes], bytes]) -> Plan:
    def apply(step: Step) -> Step:
        return step._replace(data=change(step.data)) if step.part is Part.HEAD else step

    return replace(plan, before=[apply(step) for step in plan.before], during=map(apply, plan.during))


def content_length_lie(plan: Plan, fault: Fault, scene: Scene) -> Plan:
    """More bytes are announced than come."""

    def promise(head: bytes) -> bytes:
        bare = without_header(without_header(head, "transfer-encoding"), "content-length")
        return with_header(bare, "content-length", str(_LIE))

    def bare(step: Step) -> Step:
        acts = {Act.EVENT: Act.RAW, Act.END: Act.FIN}
        return step._replace(act=acts.get(step.act, step.act))

    plan = _on_head(plan, promise)
    return replace(plan, during=map(bare, plan.during), chunked=False)


def gzip(plan: Plan, fault: Fault, scene: Scene) -> Plan:
    """A compressed answer for those who say that they take it."""
    if not scene.takes_gzip:
        return plan
    if scene.stream:
        plan = _on_head(plan, lambda head: with_header(head, "content-encoding", "gzip"))
        return replace(plan, during=_compressed(plan.during))
    return replace(plan, during=_compressed_page(plan.during, scene))


def _compressed(steps: Iterator[Step]) -> Iterator[Step]:
    press = zlib.compressobj(wbits=31)
    for step in steps:
        if step.act is Act.EVENT:
            yield step._replace(data=press.compress(step.data) + press.flush(zlib.Z_SYNC_FLUSH))
            continue
        if step.act is Act.END:
            yield step._replace(act=Act.EVENT, data=press.flush())
        yield step


def _compressed_page(steps: Iterator[Step], scene: Scene) -> Iterator[Step]:
    for step in steps:
        if step.part is Part.BODY:
            body = zlib.compress(step.data, wbits=31)
            head = page_head(Page(200, body, headers=[("content-encoding", "gzip")]), scene.now, close=scene.close)
            yield step._replace(data=head, part=Part.HEAD)
            yield step._replace(data=body)
        elif step.part is not Part.HEAD:
            yield step
