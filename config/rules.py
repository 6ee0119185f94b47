"""What more than one setting decides: rules that must hold, and advice that may be ignored."""

import ipaddress
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.settings import Settings

VLLM_IDLE_CLOSE_S = 5
"""Seconds after which vLLM's server closes an idle connection (uvicorn's default, which vLLM keeps)."""

NGINX_UPSTREAM_KEEPALIVE_S = 60
"""Seconds for which nginx keeps an idle connection to us (keepalive_timeout of an upstream, its default)."""

NGINX_READ_TIMEOUT_S = 60
"""Seconds of silence after which nginx cuts a stream (proxy_read_timeout, its default)."""


def broken(settings: "Settings") -> list[str]:
    """Rules that the tree breaks, each as `path: what is wrong`. Empty: it can be served."""
    return [
        *_lanes_exist(settings),
        *_engines_fit_the_topology(settings),
        *_names_are_unique(settings),
        *_safe(settings),
        *_extras_are_installed(settings),
    ]


def advice(settings: "Settings") -> list[str]:
    """What works but is likely not meant, each as `path: why`."""
    return [*_slots(settings), *_shared_engines(settings), *_times(settings), *_sizes(settings), *_embedded(settings)]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _lanes_exist(settings: "Settings") -> Iterator[str]:
    known = ", ".join(settings.lanes)
    for field in ("default_lane", "batch_lane"):
        if (name := getattr(settings, field)) not in settings.lanes:
            yield f"{field}: there is no lane {name}; there are {known}"
    for name, lane in settings.lanes.items():
        if lane.overflow == name:
            yield f"lanes.{name}.overflow: a lane cannot overflow into itself"
        elif lane.overflow is not None and lane.overflow not in settings.lanes:
            yield f"lanes.{name}.overflow: there is no lane {lane.overflow}; there are {known}"
        elif lane.overflow is not None and lane.priority and settings.lanes[lane.overflow].priority is None:
            yield f"lanes.{name}.overflow: engines of {lane.overflow} would refuse the priority {lane.priority}"


def _engines_fit_the_topology(settings: "Settings") -> Iterator[str]:
    if settings.topology == "single":
        yield from _single(settings)
        return
    empty = [name for name, lane in settings.lanes.items() if not lane.engines]
    if len(empty) < len(settings.lanes):
        for name in empty:
            yield (
                f"lanes.{name}.engines: is empty while other lanes have engines; "
                "add one, or let the lanes share with topology = single"
            )


def _single(settings: "Settings") -> Iterator[str]:
    if settings.default_lane == settings.batch_lane:
        yield "batch_lane: topology single needs a lane apart from default_lane"
    for name, lane in settings.lanes.items():
        if lane.engines and name != settings.default_lane:
            yield f"lanes.{name}.engines: must be empty in topology single: it shares those of {settings.default_lane}"
    owner = settings.lanes.get(settings.default_lane)
    if owner is not None and settings.single.reserve >= (slots := settings.slots_of(settings.default_lane)):
        yield f"single.reserve: leaves no slot: {settings.single.reserve} of {slots} are kept free"


def _names_are_unique(settings: "Settings") -> Iterator[str]:
    names = Counter(engine.name for lane in settings.lanes.values() for engine in lane.engines)
    for name, count in names.items():
        if count > 1:
            yield f"lanes: {count} engines have the name {name}"


def _safe(settings: "Settings") -> Iterator[str]:
    server = settings.server
    if not is_loopback(server.host) and not server.allow_open and not settings.keys.required:
        yield (
            f"server.host: other machines can reach {server.host or 'every address'} and no key is needed; "
            "listen on 127.0.0.1, set keys.required = true, or set server.allow_open = true"
        )


def _extras_are_installed(settings: "Settings") -> Iterator[str]:
    wanted = {
        "keys.redis_url": ("redis", "redis", settings.keys.redis_url),
        "tracing.endpoint": ("otel", "opentelemetry.sdk", settings.tracing.endpoint),
    }
    for path, (extra, module, value) in wanted.items():
        if value is not None and not _is_installed(module):
            yield f"{path}: needs what is not installed: pip install 'tokenlane[{extra}]'"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _slots(settings: "Settings") -> Iterator[str]:
    for name in settings.lanes:
        slots, connections = settings.slots_of(name), settings.connections_of(name)
        if slots > connections:
            yield f"lanes.{name}.slots: {slots} slots, but only {connections} connections: the rest waits unseen"
        engines = settings.engines_of(name)
        sequences = [engine.max_num_seqs for engine in engines if engine.max_num_seqs is not None]
        if sequences and len(sequences) == len(engines) and slots > (total := sum(sequences)):
            yield f"lanes.{name}.slots: {slots} slots, but the engines run {total} sequences: the rest waits in them"


def _shared_engines(settings: "Settings") -> Iterator[str]:
    urls = Counter(engine.url for lane in settings.lanes.values() for engine in lane.engines)
    if any(count > 1 for count in urls.values()):
        yield "lanes: an engine is listed twice, so that its slots are counted twice; topology = single shares one"


def _times(settings: "Settings") -> Iterator[str]:
    times, server = settings.timeouts, settings.server
    if times.keepalive_s >= VLLM_IDLE_CLOSE_S and not settings.embedded:
        yield f"timeouts.keepalive_s: vLLM closes idle connections after {VLLM_IDLE_CLOSE_S} s: keep them for less"
    if server.keepalive_s <= NGINX_UPSTREAM_KEEPALIVE_S:
        yield f"server.keepalive_s: nginx reuses idle connections for {NGINX_UPSTREAM_KEEPALIVE_S} s: keep them longer"
    if times.commit_after_s >= times.first_token_s:
        yield "timeouts.commit_after_s: is not below first_token_s, so that a slow start is never bridged by pings"
    if times.ping_s == 0 or times.ping_s >= NGINX_READ_TIMEOUT_S:
        yield f"timeouts.ping_s: proxies cut a stream that is silent for {NGINX_READ_TIMEOUT_S} s: ping more often"
    if server.shutdown_grace_s == 0:
        yield "server.shutdown_grace_s: is 0, so that running streams are cut at once at a stop"


def _sizes(settings: "Settings") -> Iterator[str]:
    limits = settings.limits
    if limits.header_bytes > limits.head_bytes:
        yield "limits.header_bytes: is above head_bytes, which is reached first"
    if limits.event_bytes > limits.answer_bytes:
        yield "limits.event_bytes: is above answer_bytes: a stream may carry what a whole answer may not"


def _embedded(settings: "Settings") -> Iterator[str]:
    if settings.embedded:
        yield "lanes: no lane has an engine: simulated engines answer, and what they say has no meaning"
