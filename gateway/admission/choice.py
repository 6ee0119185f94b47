"""Which lane a request belongs to. Pure.

The first of these that says something decides, and the lanes that the key may use bound them all:

    header X-Tokenlane-Lane       the name of a lane
    body service_tier             priority, scale, default, auto -> the interactive lane; flex -> the batch lane
    model suffix `name:lane`      only where the suffix is the name of a lane; else the colon is part of the name
    the default                   of the endpoint

A lane that is named, by the header or the suffix, is served or refused. A tier is a wish, and so is the default: a key
that may not use that lane is served in one that it may use, the default if it may, else the first that is configured.
The answer's headers say which it was. Nonsense is refused even where something stronger decides.

The tiers are those of OpenAI's `service_tier`: https://platform.openai.com/docs/api-reference/chat/create
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.errors import InvalidRequest, LaneForbidden

HEADER = "X-Tokenlane-Lane"
"""The request header that names a lane."""

FLEX = "flex"
STATED = {"priority": "priority", "scale": "priority", "default": "default", "auto": "default"}
"""Tiers of the interactive lane -> the tier that the answer states; `auto` is never a tier that was used."""


@dataclass(frozen=True, slots=True)
class LaneNames:
    """The lanes that there are, in the order of configuration, and which of them have a role.

    `defaults` has by lane what its requests get for fields that they do not have, `priorities` the engine's priority
    of its requests where there is one.
    """

    names: tuple[str, ...]
    interactive: str
    batch: str
    defaults: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)


class LaneChoice(NamedTuple):
    """Where a request goes.

    `model` is without a suffix that names a lane. `tier` is the `service_tier` that the answer has to state, None where
    the request named none. `strip_tier` says that the field has to leave the body before an engine sees it.
    """

    lane: str
    model: str | None
    tier: str | None
    strip_tier: bool


def choose_lane(
    lanes: LaneNames,
    *,
    header: str | None,
    service_tier: object,
    model: str | None,
    default: str,
    ceiling: Collection[str] | None,
) -> LaneChoice:
    """The lane of one request.

    Args:
        lanes: the lanes that there are.
        header: the value of `X-Tokenlane-Lane`; an empty one says nothing.
        service_tier: the body's field as it was decoded; None where it is missing or null.
        model: the body's model.
        default: the lane of the endpoint.
        ceiling: the lanes that the key may use; None: all.

    Raises:
        InvalidRequest: the header names no lane, or the tier is none of OpenAI's.
        LaneForbidden: the key may not use the lane that is named, or none at all.
    """
    by_header = _by_header(lanes, header)
    by_tier = _by_tier(lanes, service_tier)
    bare, by_suffix = _split(lanes, model)
    named = by_header or (None if by_tier else by_suffix)
    if named and ceiling is not None and named not in ceiling:
        raise LaneForbidden(f"This key may not use the lane {named!r}.")
    lane = _within(lanes, ceiling, named or by_tier or default, default)
    return LaneChoice(lane, bare, _stated(lanes, lane, service_tier), strip_tier=service_tier is not None)


def _by_header(lanes: LaneNames, header: str | None) -> str | None:
    name = (header or "").strip()
    if name and name not in lanes.names:
        raise InvalidRequest(f"There is no such lane; there are: {', '.join(lanes.names)}.", param=HEADER)
    return name or None


def _by_tier(lanes: LaneNames, tier: object) -> str | None:
    if tier is None:
        return None
    if tier == FLEX:
        return lanes.batch
    if isinstance(tier, str) and tier in STATED:
        return lanes.interactive
    known = ", ".join(sorted([*STATED, FLEX]))
    raise InvalidRequest(f"service_tier must be one of: {known}.", param="service_tier")


def _split(lanes: LaneNames, model: str | None) -> tuple[str | None, str | None]:
    bare, _, suffix = (model or "").rpartition(":")
    return (bare, suffix) if bare and suffix in lanes.names else (model, None)


def _within(lanes: LaneNames, ceiling: Collection[str] | None, asked: str, default: str) -> str:
    if ceiling is None:
        return asked
    for lane in (asked, default, *lanes.names):
        if lane in ceiling and lane in lanes.names:
            return lane
    raise LaneForbidden("This key may use none of the lanes that there are.")


def _stated(lanes: LaneNames, lane: str, tier: object) -> str | None:
    if not isinstance(tier, str):
        return None
    if lane == lanes.batch:
        return FLEX
    return STATED.get(tier, "default") if lane == lanes.interactive else "default"
