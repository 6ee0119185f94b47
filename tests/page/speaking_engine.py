"""An engine that says what a test tells it to, in vLLM's chat format, from a thread of its own.

    engine.plays(text("Hello ", "world"), FINISH, usage(2), DONE)   # the next chat request
    engine.asked[-1].body["temperature"]

What is not part of a script (models, health, probes that are not streamed) it answers by itself.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

MODEL = "gpt-oss-20b"


@dataclass(frozen=True)
class Send:
    """The data of one event."""

    data: str


@dataclass(frozen=True)
class Wait:
    """Seconds."""

    seconds: float


@dataclass(frozen=True)
class Refuse:
    """An error status instead of a stream."""

    status: int
    message: str
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cut:
    """The connection breaks."""


@dataclass(frozen=True)
class Stall:
    """Nothing more comes, and the connection stays."""


Step = Send | Wait | Refuse | Cut | Stall


@dataclass
class Asked:
    """A chat request, and whether its peer has closed the connection before the script was over."""

    body: dict[str, Any]
    headers: dict[str, str]
    left: threading.Event = field(default_factory=threading.Event)


def chunk(delta: dict[str, Any], finish: str | None = None) -> Send:
    """One chunk of choice 0."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return Send(
        json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]})
    )


def text(*pieces: str) -> list[Step]:
    """A chunk of content a piece."""
    return [chunk({"content": piece}) for piece in pieces]


def thoughts(*pieces: str, name: str = "reasoning") -> list[Step]:
    """A chunk of reasoning a piece."""
    return [chunk({name: piece}) for piece in pieces]


def paced(steps: Iterable[Step], gap: float) -> list[Step]:
    """The same with a pause before each."""
    return [each for step in steps for each in (Wait(gap), step)]


def usage(tokens: int) -> Send:
    """The usage chunk."""
    counts = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return Send(json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": counts}))


def finish(reason: str = "stop") -> Send:
    """The last chunk of the choice."""
    return chunk({}, reason)


DONE = Send("[DONE]")
ERROR = Send(json.dumps({"error": {"message": "The engine is out of memory.", "type": "server_error", "code": 500}}))


def whole(*said: Step | Sequence[Step], tokens: int = 3) -> list[Step]:
    """A stream with everything that belongs to one."""
    return [*flat(said), finish(), usage(tokens), DONE]


def flat(steps: Iterable[Step | Sequence[Step]]) -> list[Step]:
    """Steps in one list."""
    return [one for each in steps for one in (each if isinstance(each, Sequence) else (each,))]


class SpeakingEngine:
    """The server; use it with `with`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self._scripts: list[list[Step]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def plays(self, *steps: Step | Sequence[Step]) -> None:
        """The script of one more chat request; those that come without one get a short answer."""
        self._scripts.append(flat(steps))

    def forget(self) -> None:
        """Before another test."""
        self._scripts.clear()
        self.asked.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection can take another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        read = json.loads(body) if body else {}
        if not read.get("stream"):
            await _write(writer, 200, _whole_answer(head[0]))
            return True
        asked = Asked(read, headers)
        self.asked.append(asked)
        return await self._play(self._scripts.pop(0) if self._scripts else whole(text("Fine.")), asked, reader, writer)

    async def _play(
        self, script: list[Step], asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if script and isinstance(refusal := script[0], Refuse):
            error = {"error": {"message": refusal.message, "type": "error", "param": None, "code": refusal.status}}
            await _write(writer, refusal.status, json.dumps(error), refusal.headers)
            return True
        playing = asyncio.create_task(_stream(script, writer))
        leaving = asyncio.create_task(reader.read(1))  # the gateway sends nothing more: bytes are an end
        await asyncio.wait((playing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not playing.done() or isinstance(playing.exception(), ConnectionError):
            asked.left.set()  # a reset may be met by the writing side first
        for task in (playing, leaving):
            task.cancel()
        await asyncio.gather(playing, leaving, return_exceptions=True)
        return False


async def _stream(script: list[Step], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
    writer.write(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n")
    loop = asyncio.get_running_loop()
    due = loop.time()
    for step in script:
        match step:
            case Wait(seconds):
                due = max(due, loop.time() - 0.25) + seconds
                await asyncio.sleep(max(0.0, due - loop.time()))
            case Send(data):
                event = f"data: {data}\n\n".encode()
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()
            case Cut():
                return
            case Stall():
                await asyncio.Event().wait()
            case Refuse():
                raise AssertionError("a refusal comes first")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _whole_answer(request_line: str) -> str:
    if "/v1/models" in request_line:
        model = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 8192}
        return json.dumps({"object": "list", "data": [model]})
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": message, "text": "x", "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})


async def _write(writer: asyncio.StreamWriter, status: int, body: str, headers: Sequence[str] = ()) -> None:
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body.encode())}"]
    writer.write("\r\n".join([*lines, *headers, "", body]).encode())
    await writer.drain()
