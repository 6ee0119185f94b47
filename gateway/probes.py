"""What an engine is asked to find out how it does. See `gateway/routing/prober.py` for when."""

from collections.abc import Sequence

from gateway.errors import EngineAnswered
from gateway.routing.pool import Engine
from gateway.upstream.client import EngineClient, PoolExhausted
from gateway.upstream.engines import KINDS

ANSWER_LIMIT = 2**20
"""Bytes of an answer that are read."""

SMALLEST = {
    "/v1/completions": b'{"prompt":"Hello","max_tokens":1,"temperature":0}',
    "/v1/chat/completions": b'{"messages":[{"role":"user","content":"Hello"}],"max_tokens":1,"temperature":0}',
    "/v1/embeddings": b'{"input":"Hello"}',
    "/pooling": b'{"input":"Hello"}',
}
"""How an engine is asked for the least of its work: one token; where it does not know how, since its model does not
generate, a vector. vLLM takes the model that it serves where none is named, and has /pooling with every such model."""

NOT_KNOWN = frozenset({404, 405, 501})
"""Answers of an engine that has no such endpoint, or a model that is not for it."""


class Probes:
    """The two questions, asked over connections that no request can take away."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def health(self, engine: Engine) -> bool:
        """Whether the engine says that it is well. Raises EngineError if it cannot be asked."""
        await self._ask("GET", engine, KINDS[engine.kind].health_path)
        return True

    async def generate(self, engine: Engine) -> bool:
        """Whether the engine really generates a token, or computes a vector. Raises EngineError if it does not."""
        for path, body in SMALLEST.items():
            try:
                await self._ask("POST", engine, path, [("content-type", "application/json")], body)
            except EngineAnswered as error:
                if error.status in NOT_KNOWN:
                    continue
                raise
            return True
        return False

    async def _ask(
        self, method: str, engine: Engine, path: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
    ) -> None:
        """Raises EngineError; also where every connection for questions is taken, which says nothing of the engine."""
        key = [("authorization", f"Bearer {engine.api_key}")] if engine.api_key else []
        headers = [*headers, *key]
        try:
            response = await self._client.send(method, engine.url + path, headers=headers, body=body, control=True)
        except PoolExhausted as error:
            raise EngineAnswered(503, b"") from error
        try:
            answer = await response.read(ANSWER_LIMIT)
        finally:
            response.close()
        if response.status != 200:
            raise EngineAnswered(response.status, answer)
