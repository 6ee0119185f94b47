"""A request as the gateway understands it: which endpoint, which lane, what goes to the engine."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.admission.choice import LaneNames, choose_lane
from gateway.buffer import Window
from gateway.endpoints import ENDPOINTS, RETRIEVE, Endpoint
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.keys.key import Key
from gateway.keys.mark import must_be_of, new_id
from gateway.wire.request import REMOVE, edit, extend, flag_field, read_object, string_field

MAX_TOKENS, MAX_DELAY = 64, 1.0
"""The widest window that a request may ask for: tokens, seconds."""


class Call(NamedTuple):
    """What one client asks for.

    Attributes:
        endpoint: what is asked.
        body: goes to the engine as it is.
        headers: the client's, names in lower case; the engine's kind says which may go on.
        stream: whether an event stream is wanted.
        lane: the name of the chosen lane.
        tier: the service tier that the answer states, None if the client did not ask for one.
        request_id: goes to the engine too.
        session: what requests that should meet the same engine have in common, if the client says it.
        stored: the id of the stored response that it goes on from, or asks for: only the engine that keeps it will do.
        target: at the engine, where it is not the endpoint's path.
        ceiling: names of the lanes that the client may use, None: all.
        hides_usage: the engine is asked for the usage of the stream, which the client did not ask for.
    """

    endpoint: Endpoint
    body: bytes
    headers: Mapping[str, str]
    stream: bool
    lane: str
    tier: str | None
    request_id: str
    session: str | None = None
    stored: str | None = None
    target: str | None = None
    ceiling: tuple[str, ...] | None = None
    hides_usage: bool = False


def read_call(
    endpoint: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    lanes: LaneNames,
    default: str,
    request_id: str,
    key: Key | None = None,
) -> Call:
    """Reads a request.

    Args:
        endpoint: its path, one of `ENDPOINTS`.
        body: as it came.
        headers: as they came, names in lower case.
        lanes: the lanes there are, and their roles.
        default: the lane of a request that asks for none.
        request_id: of this request.
        key: what the client may do, None: everything.

    Raises:
        InvalidRequest: no engine could make sense of it.
        LaneForbidden, ModelNotFound, ResponseNotFound: not with this key.
    """
    read = read_object(body)
    row = ENDPOINTS[endpoint]
    tier = read.get("service_tier")
    choice = choose_lane(
        lanes,
        header=headers.get("x-tokenlane-lane"),
        service_tier=None if isinstance(tier, str) and tier in row.tiers else tier,
        model=string_field(read, "model"),
        default=default,
        ceiling=key.lanes if key else None,
    )
    if key is not None and not key.may_ask(choice.model):
        raise ModelNotFound(f"The model {(choice.model or '')[:256]!r} does not exist.")
    stream = flag_field(read, "stream") if row.dialect else False
    changes: dict[str, Any] = {}
    stored = string_field(read, "previous_response_id") if row.keeps else None
    if stored is not None:
        must_be_of(key, stored)
    if row.keeps and key is not None:
        changes["request_id"] = new_id(key)
    if choice.strip_tier:
        changes["service_tier"] = REMOVE
    if "priority" in read and row.prioritized and choice.lane in lanes.priorities:
        changes["priority"] = lanes.priorities[choice.lane]  # else a client could overtake its own lane
    if choice.model != read.get("model"):
        changes["model"] = choice.model
    counts = key is not None and key.tokens_per_minute is not None and stream and row.dialect == "openai"
    asks_usage = _with_usage(read.get("stream_options")) if counts else None
    if asks_usage is not None:
        changes["stream_options"] = asks_usage
    return Call(
        endpoint=row,
        body=_extended(_edited(body, changes) if changes else body, read, row, lanes, choice.lane),
        headers=headers,
        stream=stream,
        lane=choice.lane,
        tier=choice.tier if row.states_tier else None,
        request_id=request_id,
        session=headers.get("x-session-id") or string_field(read, "prompt_cache_key"),
        stored=stored,
        ceiling=key.lanes if key else None,
        hides_usage=asks_usage is not None,
    )


def _extended(body: bytes, read: Mapping[str, Any], row: Endpoint, lanes: LaneNames, lane: str) -> bytes:
    """The body with what the lane adds: defaults for fields that the client did not send (a null is sent, too)."""
    defaults = lanes.defaults.get(lane, {})
    added: dict[str, float] = {name: defaults[name] for name in defaults if name in row.sampling and name not in read}
    if lane in lanes.priorities and row.prioritized and "priority" not in read:
        added["priority"] = lanes.priorities[lane]
    return extend(body, added) if added else body


def _with_usage(options: object) -> dict[str, Any] | None:
    """Stream options that ask for the usage; None where the client asks itself, or where only the engine can judge.

    Usage on every chunk (vLLM's `continuous_usage_stats`) means nothing without `include_usage`, and has to stay so.
    """
    if options is None:
        return {"include_usage": True}
    if not isinstance(options, dict) or not (options.get("include_usage") is None or options["include_usage"] is False):
        return None
    continuous = {"continuous_usage_stats": False} if "continuous_usage_stats" in options else {}
    return {**options, "include_usage": True, **continuous}


def retrieval(
    target: str,
    response_id: str,
    headers: Mapping[str, str],
    *,
    lanes: LaneNames,
    default: str,
    request_id: str,
    key: Key | None = None,
) -> Call:
    """A stored response as a stream.

    Raises InvalidRequest, LaneForbidden for a lane that there is not, or not for it; ResponseNotFound for what another
    key made.

    Args:
        target: path and query at the engine.
        response_id: of the response.
        headers: as they came, names in lower case.
        lanes: the lanes there are.
        default: the lane of a request that asks for none.
        request_id: of this request.
        key: what the client may do, None: everything.
    """
    must_be_of(key, response_id)
    header = headers.get("x-tokenlane-lane")
    ceiling = key.lanes if key else None
    choice = choose_lane(lanes, header=header, service_tier=None, model=None, default=default, ceiling=ceiling)
    return Call(
        endpoint=RETRIEVE,
        body=b"",
        headers=headers,
        stream=True,
        lane=choice.lane,
        tier=None,
        request_id=request_id,
        stored=response_id,
        target=target,
        ceiling=ceiling,
    )


def _edited(body: bytes, changes: Mapping[str, Any]) -> bytes:
    try:
        return edit(body, changes)
    except RecursionError as error:
        raise InvalidRequest("The body is nested too deeply.") from error


def read_window(wish: str | None, default: Window) -> Window:
    """The window a client asks for in `X-Tokenlane-Buffer: tokens=1,delay_ms=0`, within the server's bounds.

    What is not named stays as the lane has it. Raises InvalidRequest for another name or a value out of bounds.
    """
    if not wish:
        return default
    window = default
    for part in wish.split(","):
        name, _, value = part.strip().partition("=")
        window = _with(window, name.strip(), value.strip())
    return window


def _with(window: Window, name: str, value: str) -> Window:
    param = "X-Tokenlane-Buffer"
    if name == "tokens" and value.isdecimal() and 1 <= int(value) <= MAX_TOKENS:
        return replace(window, tokens=int(value))
    if name == "delay_ms" and value.isdecimal() and int(value) / 1000 <= MAX_DELAY:
        return replace(window, delay=int(value) / 1000)
    message = (
        f"{param} takes tokens=1..{MAX_TOKENS} and delay_ms=0..{MAX_DELAY * 1000:.0f}, as in 'tokens=1,delay_ms=0'."
    )
    raise InvalidRequest(message, param=param)
