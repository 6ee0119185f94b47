"""Asks an engine for a burst: streamed answers of a few tokens to prompts that it has never seen.

A prompt is a list of random token ids for /v1/completions: its length is exact, and no prefix cache knows it. The ids
are small ones, which every vocabulary has. An engine without that endpoint gets as many words by way of a chat.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from gateway.errors import EngineAnswered, EngineBroke, EngineError, EngineTruncated
from gateway.upstream.client import EngineClient, PoolExhausted
from gateway.warmup.plan import Size
from gateway.wire.shapes import status_of
from gateway.wire.sse import SseDecoder

NOT_KNOWN: Final = frozenset({404, 405, 501})
"""Answers of an engine that has no such endpoint, or a model that is not for it."""

TOKEN_IDS: Final = range(100, 1001)
WORDS: Final = (
    "the",
    "a",
    "of",
    "to",
    "in",
    "is",
    "it",
    "on",
    "as",
    "at",
    "by",
    "we",
    "or",
    "an",
    "be",
    "no",
    "so",
    "up",
    "if",
)
"""Words that are one token with a blank before them."""

ERROR_LIMIT = 2**20
"""Bytes of an engine's error that are read, and of one event."""


class GeneratesNothing(Exception):
    """The engine knows neither completions nor chats: it serves a model that does not generate."""


class Asker:
    """Asks one engine. The burst that is asked for first finds out which endpoint it has.

    Args:
        client: has as many connections to it as the largest burst has requests.
        url: the engine's origin, without a slash at its end.
        headers: that every request gets.
        model: the name of the model; None: the engine takes the one that it serves.
        answer_tokens: tokens that each request asks for.
        draw: makes the prompts.
        clock: seconds; finer than the event loop's, which counts milliseconds with uvloop.
    """

    def __init__(
        self,
        client: EngineClient,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        model: str | None = None,
        answer_tokens: int = 8,
        draw: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._url = url
        self._headers = [("content-type", "application/json"), *headers]
        self._common: dict[str, Any] = {"max_tokens": answer_tokens, "temperature": 0, "ignore_eos": True}
        self._common |= {"stream": True, "return_token_ids": True}  # a token without text is an event then, too
        if model is not None:
            self._common["model"] = model
        self._draw = draw or random.Random()
        self._clock = clock
        self._ways = [("/v1/completions", self._ids), ("/v1/chat/completions", self._words)]

    async def burst(self, size: Size) -> list[float]:
        """The TTFT of each request of a burst, in seconds.

        Raises:
            GeneratesNothing: it is no engine that generates.
            EngineError: one request failed; the others were given up.
        """
        while self._ways:
            path, prompt = self._ways[0]
            try:
                return await self._all(path, [prompt(size.prompt_tokens) for _ in range(size.concurrency)])
            except EngineAnswered as error:
                if error.status not in NOT_KNOWN:
                    raise
                self._ways.pop(0)
        raise GeneratesNothing("the engine has no endpoint that generates")

    async def _all(self, path: str, prompts: Sequence[dict[str, Any]]) -> list[float]:
        bodies = [orjson.dumps(self._common | prompt) for prompt in prompts]
        try:
            async with asyncio.TaskGroup() as burst:
                tasks = [burst.create_task(self._one(path, body)) for body in bodies]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return [task.result() for task in tasks]

    async def _one(self, path: str, body: bytes) -> float:
        """The TTFT of one request, whose answer is read to its end. Raises EngineError."""
        began = self._clock()
        try:
            response = await self._client.send("POST", self._url + path, headers=self._headers, body=body)
        except PoolExhausted as error:
            raise EngineAnswered(503, b"") from error
        try:
            if response.status != 200:
                raise EngineAnswered(response.status, await response.read(ERROR_LIMIT))
            stream = FirstToken(self._clock)
            response.attach(stream)
            return await stream.first - began
        finally:
            response.close()

    def _ids(self, tokens: int) -> dict[str, Any]:
        return {"prompt": self._draw.choices(TOKEN_IDS, k=tokens)}

    def _words(self, tokens: int) -> dict[str, Any]:
        """Fewer words than tokens: what the chat template adds must not make a long prompt too long."""
        words = " ".join(self._draw.choices(WORDS, k=max(1, tokens * 3 // 4)))
        return {"messages": [{"role": "user", "content": words}]}


class FirstToken:
    """A sink for an event stream that notes when its first token came.

    Args:
        clock: seconds.

    Attributes:
        first: done when the stream has ended: when its first token came, or the EngineError that it ended with.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._decoder = SseDecoder(ERROR_LIMIT)
        self._at: float | None = None
        self._whole = False
        self.first: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def received(self, data: bytes) -> None:
        """See `Sink.received`."""
        try:
            for event in self._decoder.feed(data):
                self._take(event.data)
        except EngineError as error:
            self.ended(error)

    def ended(self, error: EngineError | None) -> None:
        """See `Sink.ended`."""
        if self.first.done():
            return
        if error is None and (self._at is None or not self._whole):
            error = EngineTruncated("the engine's stream ended without a finish")
        if error is not None:
            self.first.set_exception(error)
        elif self._at is not None:
            self.first.set_result(self._at)

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._whole = True
            return
        try:
            read = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise EngineBroke("the engine sent an event that is not JSON") from None
        if not isinstance(read, dict) or read.get("error") is not None:
            raise EngineAnswered(status_of(data), data)
        if self._at is None and read.get("choices"):
            self._at = self._clock()
