"""Responses that are kept, and those that are made in the background.

A response in the background is made without a place among those that run: its text is known at once, and shown when the
time that it would have taken is over.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.sim.asked import Asked
from app.sim.controls import Controls
from app.sim.http import stream_head
from app.sim.jobs import Circumstances, make_job
from app.sim.refusals import bad_request, unknown_response
from app.sim.settings import SimSettings
from app.sim.steps import Act, Part, Plan, Step

KEPT = 1000
"""The last so many are kept."""


@dataclass(slots=True)
class _Stored:
    """One response: what it will be, its events, and when it is ready (seconds of the epoch)."""

    whole: dict[str, Any]
    events: list[bytes]
    ready_at: float
    background: bool
    cancelled: bool = False

    def shown(self, now: float) -> dict[str, Any]:
        status = "cancelled" if self.cancelled else "in_progress"
        if not self.cancelled and now >= self.ready_at:
            return self.whole
        return self.whole | {"status": status, "output": [], "usage": None}


class StoredResponses:
    """The responses that one engine keeps."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Stored] = OrderedDict()

    def add(self, asked: Asked, controls: Controls, settings: SimSettings, given: Circumstances) -> dict[str, Any]:
        """Keeps the response of a request, unless it says `store: false`; the response as it is now."""
        calm = replace(controls, fault=None)
        told = list(_steps(replace(asked, stream=False), calm, settings, given))
        whole = orjson.loads(next(step.data for step in told if step.part is Part.BODY))
        shown = _steps(replace(asked, stream=True), calm, settings, given)
        events = [step.data for step in shown if step.act is Act.EVENT]
        ready_at = given.now + calm.ttft + told[-1].tick * calm.itl
        stored = _Stored(whole, events, ready_at, bool(asked.fields.get("background")))
        if asked.fields.get("store") is not False:
            self._kept[whole["id"]] = stored
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return stored.shown(given.now)

    def check(self, asked: Asked) -> None:
        """The response that a request goes on from is kept.

        Raises:
            Refused: it is not.
        """
        previous = asked.fields.get("previous_response_id")
        if previous is not None:
            self._find(previous)

    def show(self, response_id: str, now: float) -> dict[str, Any]:
        """A response as it is now.

        Raises:
            Refused: it is not kept.
        """
        return self._find(response_id).shown(now)

    def replay(self, response_id: str, after: int, now: float, *, close: bool) -> Plan:
        """The events of a response behind the one of number `after`, all at once.

        Raises:
            Refused: it is not kept.
        """
        events = self._find(response_id).events[after + 1 :]
        steps = [Step(Act.RAW, stream_head(now, close=close), Part.HEAD)]
        return Plan([*steps, *(Step(Act.EVENT, one) for one in events), Step(Act.END)], chunked=True)

    def cancel(self, response_id: str, now: float) -> dict[str, Any]:
        """Ends a response that is made in the background.

        Raises:
            Refused: it is not kept, not made in the background, or over.
        """
        stored = self._find(response_id)
        if not stored.background or now >= stored.ready_at:
            raise bad_request("Cannot cancel a synchronous response.", "response_id", bare=True)
        stored.cancelled = True
        return stored.shown(now)

    def _find(self, response_id: str) -> _Stored:
        stored = self._kept.get(response_id)
        if stored is None:
            raise unknown_response(response_id)
        return stored


def _steps(asked: Asked, controls: Controls, settings: SimSettings, given: Circumstances) -> Iterator[Step]:
    headers: Mapping[str, str] = {}
    plan = make_job(asked, controls, headers, settings, given).plan
    yield from plan.before
    yield from plan.during
