"""Which path and method leads where, generation apart."""

import secrets
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

import orjson

from app.sim.http import Page, json_page
from app.sim.pages import VERSION, Counts, count_page, detokenize_page, metrics_page, models_page, tokenize_page
from app.sim.pooling import embeddings_page, rerank_page, score_page
from app.sim.refusals import bad_request
from app.sim.server import Request
from app.sim.settings import SimSettings
from app.sim.stored import StoredResponses

Handler = Callable[[Request], Page]
_EMPTY = Page(content_type=None)
BY_ID = "/v1/responses/"


class Engine(Protocol):
    """What the endpoints ask of the engine."""

    settings: SimSettings
    stored: StoredResponses

    @property
    def started_at(self) -> float:
        """When it was started, in seconds of the epoch."""

    @property
    def connections(self) -> int:
        """Open connections."""

    @property
    def paused(self) -> bool:
        """Whether no request may begin."""

    def counts(self) -> Counts:
        """What has been counted so far."""

    def wall_clock(self) -> float:
        """Seconds of the epoch."""

    def abort_requests(self) -> int:
        """End every request."""

    def pause(self, *, abort: bool = False) -> None:
        """Let no request begin."""

    def resume(self) -> None:
        """Undo `pause`."""

    def set(self, **changes: Any) -> None:
        """Change settings."""


def make_routes(engine: Engine) -> dict[str, dict[str, Handler]]:
    """Handlers by path and method; a handler may raise `Refused`."""
    return _state_routes(engine) | _pooling_routes(engine) | _development_routes(engine) | _simulator_routes(engine)


def response_routes(engine: Engine, path: str) -> dict[str, Handler] | None:
    """Handlers by method for what is asked of one stored response; None where the path is no such thing."""
    if not path.startswith(BY_ID):
        return None
    response_id, _, action = path.removeprefix(BY_ID).partition("/")
    stored, clock = engine.stored, engine.wall_clock
    return {
        "": {"GET": lambda _: json_page(stored.show(response_id, clock()))},
        "cancel": {"POST": lambda _: json_page(stored.cancel(response_id, clock()))},
    }.get(action)


def _pooling_routes(engine: Engine) -> dict[str, dict[str, Handler]]:
    def now() -> int:
        return int(engine.wall_clock())

    def named() -> str:
        return secrets.token_hex(8)

    def embed(request: Request) -> Page:
        return embeddings_page(request.body, request.headers, engine.settings, now(), named())

    def rerank(request: Request) -> Page:
        return rerank_page(request.body, request.headers, engine.settings, named())

    def score(request: Request) -> Page:
        return score_page(request.body, request.headers, engine.settings, now(), named())

    posted = {"/v1/embeddings": embed, "/score": score, "/v1/score": score}
    posted |= dict.fromkeys(("/rerank", "/v1/rerank", "/v2/rerank"), rerank)
    return {path: {"POST": handler} for path, handler in posted.items()}


def _state_routes(engine: Engine) -> dict[str, dict[str, Handler]]:
    def load(_: Request) -> Page:
        counts = engine.counts()
        return json_page({"server_load": counts.running + counts.waiting})

    return {
        "/v1/models": {"GET": lambda _: models_page(engine.settings, int(engine.wall_clock()))},
        "/health": {"GET": lambda _: _EMPTY},
        "/ping": {"GET": lambda _: _EMPTY, "POST": lambda _: _EMPTY},
        "/version": {"GET": lambda _: json_page({"version": VERSION})},
        "/load": {"GET": load},
        "/metrics": {"GET": lambda _: metrics_page(engine.settings, engine.counts(), engine.started_at)},
        "/tokenize": {"POST": lambda request: tokenize_page(request.body, request.headers, engine.settings)},
        "/v1/messages/count_tokens": {
            "POST": lambda request: count_page(request.body, request.headers, engine.settings)
        },
        "/detokenize": {"POST": lambda request: detokenize_page(request.body, request.headers)},
    }


def _development_routes(engine: Engine) -> dict[str, dict[str, Handler]]:
    """Those of vLLM's development mode."""

    def pause(request: Request) -> Page:
        engine.pause(abort=request.query.get("mode", "abort") == "abort")
        return json_page({"status": "paused"})

    def resume(_: Request) -> Page:
        engine.resume()
        return json_page({"status": "resumed"})

    def sleep(_: Request) -> Page:
        engine.pause()
        return _EMPTY

    def wake_up(_: Request) -> Page:
        engine.resume()
        return _EMPTY

    return {
        "/abort_requests": {"POST": lambda _: json_page({"status": "aborted", "aborted": engine.abort_requests()})},
        "/pause": {"POST": pause},
        "/resume": {"POST": resume},
        "/is_paused": {"GET": lambda _: json_page({"is_paused": engine.paused})},
        "/sleep": {"POST": sleep},
        "/wake_up": {"POST": wake_up},
        "/is_sleeping": {"GET": lambda _: json_page({"is_sleeping": engine.paused})},
    }


def _simulator_routes(engine: Engine) -> dict[str, dict[str, Handler]]:
    """The simulator's own."""

    def change(request: Request) -> Page:
        try:
            engine.set(**_settings(request.body))
        except ValueError as e:
            raise bad_request(str(e)) from None
        return json_page(asdict(engine.settings))

    def stats(_: Request) -> Page:
        return json_page({"connections": engine.connections, **asdict(engine.counts())})

    return {"/sim/set": {"POST": change}, "/sim/stats": {"GET": stats}}


def _settings(body: bytes) -> dict[str, Any]:
    changes = orjson.loads(body)
    if isinstance(changes, dict):
        return changes
    raise ValueError("a JSON object of settings is needed")
