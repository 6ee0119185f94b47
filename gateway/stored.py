"""Stored responses: each is kept by the engine that made it, and by no other.

The gateway remembers which one that was, for the last `keep` responses. What it has forgotten (it was restarted, or
another gateway took the request) it finds again by asking every engine for it in turn, which is safe: a GET changes
nothing. Whose a response is stands in its id: see `gateway.keys.mark`. The reasons are in
docs/adr/0009-stored-responses-stay-with-their-engine.md.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Sequence
from urllib.parse import quote

from gateway.errors import EngineAnswered, EngineError, EngineUnreachable, NoEngine, ResponseNotFound
from gateway.routing.pool import Engine
from gateway.upstream.client import EngineClient
from gateway.wire.whole import WholeAnswer

AT_ONCE = 4
"""Questions that are under way at the same time: fewer than the connections beside the lanes' own."""

ANSWER_LIMIT = 64 * 2**20
"""Bytes of a stored response that are read."""

RETRY_AFTER = 5.0
"""Seconds to say where the engine that keeps a response is down."""

_SANE_ID = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,255}")


class StoredResponses:
    """Who keeps which response.

    Args:
        client: asks the engines, on connections that no request can take away.
        engines: all of them; an engine that several lanes name counts once.
        keep: how many responses are remembered.
        timeout: seconds that an engine has to answer.
    """

    def __init__(
        self, client: EngineClient, engines: Sequence[Engine], *, keep: int = 10_000, timeout: float = 10.0
    ) -> None:
        self._client = client
        self._engines = {engine.url: engine for engine in reversed(engines)}
        self._keep = keep
        self._timeout = timeout
        self._homes: OrderedDict[str, str] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def __repr__(self) -> str:
        return f"<StoredResponses remembers {len(self._homes)} of {self._keep}>"

    def remember(self, response_id: str, engine: Engine) -> None:
        """Notes that this engine made the response."""
        self._homes[response_id] = engine.url
        self._homes.move_to_end(response_id)
        if len(self._homes) > self._keep:
            self._homes.popitem(last=False)

    async def home(self, response_id: str) -> Engine:
        """The engine that keeps a response.

        Raises:
            ResponseNotFound: no engine does.
            NoEngine: the one that does is down, or one that may cannot be asked.
        """
        engine = self._engines.get(self._homes.get(response_id, ""))
        if engine is None:
            engine = await self._search(response_id)
        if not engine.healthy:
            raise _down()
        return engine

    async def ask(self, method: str, response_id: str, action: str = "") -> WholeAnswer:
        """Asks the engine that keeps a response for it, or to do something with it (`/cancel`).

        Raises:
            ResponseNotFound, NoEngine: as `home`.
            EngineError: it did not answer, or with an error.
        """
        engine = await self.home(response_id)
        try:
            return await self._ask(method, engine, response_id, action)
        except (EngineUnreachable, TimeoutError) as error:
            raise _down() from error

    async def _search(self, response_id: str) -> Engine:
        if not _SANE_ID.fullmatch(response_id):
            raise ResponseNotFound(response_id)
        unsure = False
        for engine in self._engines.values():
            if not engine.healthy:
                unsure = True
                continue
            try:
                await self._ask("GET", engine, response_id)
            except EngineAnswered as error:
                unsure = unsure or error.status >= 500
                continue
            except (EngineError, TimeoutError):
                unsure = True
                continue
            self.remember(response_id, engine)
            return engine
        raise _down() if unsure else ResponseNotFound(response_id)

    async def _ask(self, method: str, engine: Engine, response_id: str, action: str = "") -> WholeAnswer:
        url = engine.url + path_of(response_id) + action
        headers = [("content-type", "application/json")] if method == "POST" else []
        if engine.api_key:
            headers.append(("authorization", f"Bearer {engine.api_key}"))
        async with self._turns, asyncio.timeout(self._timeout):
            response = await self._client.send(method, url, headers=headers, control=True)
            try:
                body = await response.read(ANSWER_LIMIT)
            finally:
                response.close()
        kind = response.headers.get("content-type", "application/json")
        if response.status != 200:
            raise EngineAnswered(response.status, body, content_type=kind)
        return WholeAnswer(200, body, kind)


def path_of(response_id: str) -> str:
    """Where an engine has a response."""
    return f"/v1/responses/{quote(response_id, safe='')}"


def serving(engine: Engine, engines: Sequence[Engine]) -> Engine | None:
    """The same engine as one of these, None if it is none of them: several lanes may name one engine."""
    return next((other for other in engines if other.url == engine.url), None)


def _down() -> NoEngine:
    return NoEngine("The engine that keeps this response cannot be asked now.", retry_after=RETRY_AFTER)
