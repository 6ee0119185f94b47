"""What a request needs of the other side before its answer can come: a slot, an engine, the head of a good answer.

    slot of the lane -> engine of the lane -> connection and head

Each is given back once, in `release`. The one other try is decided here, and whether there is one at all.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.call import Call
from gateway.errors import (
    EngineAnswered,
    EngineError,
    EngineStale,
    EngineUnreachable,
    GatewayError,
    LaneFull,
    NoEngine,
    ResponseNotFound,
)
from gateway.lane import Lane
from gateway.routing.breaker import outcome_of
from gateway.routing.pool import Engine, Lease
from gateway.stored import RETRY_AFTER, StoredResponses, serving
from gateway.telemetry import Observer, RequestAdmitted, RequestRetried
from gateway.upstream.client import EngineClient, EngineResponse
from gateway.upstream.engines import KINDS

if TYPE_CHECKING:
    from gateway.admission.gate import Permit

BUSY = frozenset({429, 503})
"""An engine's word that it is busy: no failure, and another engine may be asked."""

ERROR_BODY = 2**20
"""Bytes of an engine's error that are read."""


class Claim:
    """One request's hold on a lane and an engine.

    Args:
        call: what the client asks for.
        lanes: all lanes.
        client: asks engines.
        stored: knows which engine keeps which response.
        observer: hears of admissions and second tries.

    Attributes:
        lane: the lane that serves it: the chosen one, or the one that it overflows into.
        queued: seconds spent waiting for a slot.
    """

    def __init__(
        self,
        call: Call,
        *,
        lanes: Mapping[str, Lane],
        client: EngineClient,
        stored: StoredResponses,
        observer: Observer,
    ) -> None:
        self.lane = lanes[call.lane]
        self.queued = 0.0
        self._call = call
        self._lanes = lanes
        self._client = client
        self._stored = stored
        self._observer = observer
        self._permit: Permit | None = None
        self._lease: Lease | None = None
        self._response: EngineResponse | None = None
        self._home: Engine | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine that answers, None while there is none."""
        return self._lease.engine if self._lease else None

    def release(self, error: BaseException | None) -> None:
        """Gives everything back; `error` is what ended the request, None if nothing did."""
        if self._response is not None:
            self._response.close()
        if self._lease is not None:
            self._lease.release(outcome_of(error))
        if self._permit is not None:
            self._permit.release()

    async def enter(self) -> None:
        """A slot and an engine: of the lane, else of the one that it overflows into. Raises Refused."""
        if self._call.stored is not None:
            await self._go_home(self._call.stored)
        try:
            await self._admit()
        except (LaneFull, NoEngine):
            if self.lane.overflow is None or self._home is not None:
                raise
            self.lane = self._lanes[self.lane.overflow]
            await self._admit()

    async def _go_home(self, response_id: str) -> None:
        """Ties the request to the engine that keeps a response, and to a lane of the client's that has this engine."""
        engine = await self._stored.home(response_id)
        for lane in (self.lane, *self._allowed()):
            if home := serving(engine, lane.pool.engines):
                self.lane, self._home = lane, home
                return
        raise ResponseNotFound(response_id)

    def _allowed(self) -> list[Lane]:
        """The lanes that the client may use, and those that they overflow into."""
        names = self._lanes.keys() if self._call.ceiling is None else self._lanes.keys() & set(self._call.ceiling)
        lanes = [self._lanes[name] for name in self._lanes if name in names]
        return lanes + [self._lanes[lane.overflow] for lane in lanes if lane.overflow is not None]

    async def _admit(self) -> None:
        lane = self.lane
        if not lane.pool.capacity():
            raise lane.pool.no_engine()
        permit = await lane.gate.acquire(lane.name)
        try:
            others = [engine for engine in lane.pool.engines if engine is not self._home] if self._home else ()
            self._lease = lane.pool.lease(exclude=others, key=self._call.session)
        except NoEngine:
            permit.release()
            raise
        self._permit = permit
        self.queued = permit.waited
        self._observer(RequestAdmitted(lane.name, self.queued))

    async def ask(self) -> EngineResponse:
        """The head of a good answer. Asks once more where that is safe: nothing was sent to the client yet."""
        lease = self._lease
        assert lease is not None  # noqa: S101 - `enter` comes first
        try:
            return await self._ask_engine(lease.engine)
        except (EngineStale, EngineUnreachable, EngineAnswered) as error:
            engine, first = self._engine_for_another_try(lease, error), error
        try:
            return await self._ask_engine(engine, fresh=engine is lease.engine)
        except EngineUnreachable as second:  # that the other one is busy says more: when to come back
            raise (first if isinstance(first, EngineAnswered) else second) from None

    async def _ask_engine(self, engine: Engine, *, fresh: bool = False) -> EngineResponse:
        call = self._call
        url = engine.url + (call.target or call.endpoint.path)
        response = self._response = await self._client.send(
            call.endpoint.method, url, headers=_headers_for(engine, call), body=call.body, fresh=fresh
        )
        if response.status == 200:
            return response
        body = await response.read(ERROR_BODY)
        content_type, retry_after = said(response, "content-type"), said(response, "retry-after") or None
        raise EngineAnswered(response.status, body, content_type=content_type, retry_after=retry_after)

    def _engine_for_another_try(self, lease: Lease, error: EngineError) -> Engine:
        """Who is asked next, the failed try undone; raises the error if nobody is to be asked.

        A stale connection says nothing about the engine: the same one is asked, on another connection. An engine that
        cannot be reached, or is busy, is left to another one of the lane, if there is one.
        """
        reason = "stale"
        if not isinstance(error, EngineStale):
            if isinstance(error, EngineAnswered) and error.status not in BUSY:
                raise error
            reason = "busy" if isinstance(error, EngineAnswered) else "unreachable"
            if self._home is not None:
                raise self._homeless(lease, error)
            try:
                self._lease = self.lane.pool.lease(exclude=(lease.engine,))
            except NoEngine:
                raise error from None
            lease.release(outcome_of(error))
        if self._response is not None:
            self._response.close()
            self._response = None
        self._observer(RequestRetried(self.lane.name, lease.engine.name, reason))
        return self._lease.engine if self._lease is not None else lease.engine

    def _homeless(self, lease: Lease, error: EngineError) -> GatewayError:
        """What is said where the only engine that will do cannot be reached; if it answered, what it said."""
        if isinstance(error, EngineAnswered):
            return error
        lease.release(outcome_of(error))
        return NoEngine("The engine that keeps this response cannot be reached.", retry_after=RETRY_AFTER)


def _headers_for(engine: Engine, call: Call) -> list[tuple[str, str]]:
    headers = KINDS[engine.kind].forwarded(call.headers)
    headers += [("content-type", "application/json"), ("x-request-id", call.request_id)]
    if engine.api_key:
        headers.append(("authorization", f"Bearer {engine.api_key}"))
    return headers


def said(response: EngineResponse, name: str) -> str:
    """A header of the engine's as it can be handed on: empty where it is missing, or no plain text."""
    value = response.headers.get(name, "")
    return value if value.isascii() else ""
