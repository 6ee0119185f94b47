"""An engine that plays recordings of real vLLM, cut as the request asks for, behind a gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from openai import AsyncOpenAI

from config.settings import Settings
from tests.fakes.running_gateway import RunningGateway, running_gateway

TRACES = Path(__file__).parent.parent / "traces"


class Player:
    """A server that answers any request with the recording named in `x-sim-trace`, in pieces of `x-sim-cut` bytes.

    Args:
        body: what is played instead of recordings.

    `x-sim-end: drop` ends it as an engine that was killed does: without the chunk that ends the body.
    """

    def __init__(self, body: bytes | None = None) -> None:
        self._body = body

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                await reader.readexactly(int(headers["content-length"]))
                body = self._body or (TRACES / headers["x-sim-trace"] / "body.sse").read_bytes()
                await self._play(writer, body, int(headers["x-sim-cut"]) or len(body))
                if "x-sim-end" in headers:
                    return
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _play(self, writer: asyncio.StreamWriter, body: bytes, cut: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(body), cut):
            piece = body[at : at + cut]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if cut > 1 or at % 50 == 0:
                await asyncio.sleep(0)


@asynccontextmanager
async def playing(body: bytes | None = None) -> AsyncIterator[tuple[RunningGateway, AsyncOpenAI]]:
    """A gateway in front of a player, and the official client for the player itself."""
    server = await asyncio.start_server(Player(body).answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    lanes = {
        name: {"engines": [{"url": url, "kind": "sim", "name": f"{name}-player"}]} for name in ("lowlatency", "batch")
    }
    settings = Settings(
        lanes=lanes, server={"port": 0, "access_log": False}, health={"interval_s": 3600, "failures": 1000}
    )
    async with (
        running_gateway(settings) as gateway,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as direct,
    ):
        yield gateway, direct
    server.close()
