"""Faults that put an end to an answer."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import orjson

from app.sim.faults.model import Affliction, Fault, Scene
from app.sim.http import Page, framed, json_page
from app.sim.refusals import BUSY, DEAD, as_message, error
from app.sim.steps import DONE, Act, Part, Plan, Step, named, page_steps

STATUSES: dict[int, tuple[str, str]] = {
    400: ("BadRequestError", "The request was refused on purpose."),
    401: ("Unauthorized", "Unauthorized"),
    404: ("NotFoundError", "The model does not exist."),
    429: ("Too Many Requests", "Too many requests."),
    500: ("InternalServerError", DEAD),
    503: ("Service Unavailable", BUSY),
}


def error_event(path: str) -> bytes:
    """The error that vLLM sends within a stream: another serializer in the first case, hence the spaces."""
    if path == "/v1/messages":
        return named({"type": "error", "error": {"type": "internal_error", "message": DEAD}})
    if path == "/v1/responses":
        return named({"type": "error", "code": "server_error", "message": DEAD, "param": None, "sequence_number": 99})
    message = f'{{"message": "{DEAD}", "type": "InternalServerError", "param": null, "code": 500}}'
    return f'data: {{"error": {message}}}\n\n'.encode()


def status_instead(plan: Plan, fault: Fault, scene: Scene) -> Plan:
    """An HTTP error instead of the answer."""
    kind, message = STATUSES[fault.value]
    headers = [("retry-after", fault.retry_after)] if fault.retry_after is not None else []
    told = error(message, kind, None, fault.value)
    page = json_page(as_message(told) if scene.path == "/v1/messages" else told, fault.value, headers)
    if fault.value == 401:
        page = replace(page, body=orjson.dumps({"error": "Unauthorized"}))
    if fault.html:
        body = f"<html><body><h1>{fault.value}</h1></body></html>".encode()
        page = Page(fault.value, body, "text/html", headers)
    return Plan(page_steps(page, scene.now, close=scene.close))


def instead(*steps: Step) -> Affliction:
    """Nothing of the plan is done."""
    return lambda _plan, _fault, _scene: Plan(list(steps))


def ending(*tail: Step, broken: bool = False) -> Affliction:
    """The stream goes as far as N token events, then the tail; `broken` sends a half of the next event before it."""

    def apply(plan: Plan, fault: Fault, scene: Scene) -> Plan:
        if not scene.stream:
            return replace(plan, during=_half_body(plan.during, tail))
        return replace(plan, during=_cut_off(plan.during, fault.after, tail, broken=broken))

    return apply


def _cut_off(steps: Iterator[Step], after: int, tail: Iterable[Step], *, broken: bool) -> Iterator[Step]:
    seen = 0
    for step in steps:
        if seen >= after:
            if broken:
                data = framed(step.data)
                yield step._replace(act=Act.RAW, data=data[: len(data) // 2])
            yield from (one._replace(tick=step.tick) for one in tail)
            return
        yield step
        seen += step.is_token


def _half_body(steps: Iterator[Step], tail: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if step.part is Part.BODY:
            yield step._replace(data=step.data[: len(step.data) // 2])
            yield from (one._replace(tick=step.tick) for one in tail)
            return
        yield step


def error_instead(*tail: Step) -> Affliction:
    """An error event after N token events, `[DONE]`, then the tail; without stream a 500."""

    def apply(plan: Plan, fault: Fault, scene: Scene) -> Plan:
        if scene.stream:
            said = Step(Act.EVENT, error_event(scene.path))
            done = () if said.data.startswith(b"event: ") else (Step(Act.EVENT, DONE, Part.DONE),)
            return ending(said, *done, *tail)(plan, fault, scene)
        return status_instead(plan, replace(fault, value=500), scene)

    return apply
