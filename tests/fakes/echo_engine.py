"""An engine that answers each chat with its own prompt, and remembers which prompts it was asked."""

import asyncio
import contextlib
import json
from collections import Counter
from types import TracebackType
from typing import Any, Self


class EchoEngine:
    """The server; use it with `async with`.

    Attributes:
        delay: seconds that an answer takes.
        begun: how often each prompt was asked.
        ended: how often each answer was sent.
        most: requests that ran at once.
    """

    def __init__(self, delay: float = 0.05) -> None:
        self.delay = delay
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.most = 0
        self._now = 0
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.down()

    async def up(self) -> None:
        """Listens; after `down` on the same port again."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Ends as a process does that is killed: every connection breaks."""
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    await self._exchange(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next((int(row.split(":")[1]) for row in head.split("\r\n") if row.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        answer = await self._chat(json.loads(body)) if body else {"object": "list", "data": [{"id": "m"}]}
        data = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data))
        writer.write(data)
        await writer.drain()

    async def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["messages"][-1]["content"]
        self.begun[prompt] += 1
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self._now -= 1
        self.ended[prompt] += 1
        message = {"role": "assistant", "content": prompt}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
