"""Recorded streams of real vLLM, replayed through the gateway: the official client must not see a difference.

Each recording is played at several cuts of its bytes and read through several windows. What the official client
assembles is compared with what it assembles from the recording itself.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from config.settings import Settings
from tests.fakes.assembly import assembled
from tests.fakes.running_gateway import RunningGateway, running_gateway

TRACES = Path(__file__).parent.parent / "traces"
ENDPOINTS = ("/v1/chat/completions", "/v1/completions")
CUTS = (0, 1, 7, 100, 1021)
WINDOWS = ("tokens=1,delay_ms=0", "tokens=4,delay_ms=40", "tokens=64,delay_ms=1000")


def usable(trace: Path) -> bool:
    """A stream of one of the two endpoints that was recorded to its `[DONE]`."""
    body = trace / "body.sse"
    if not body.is_file() or json.loads((trace / "request.json").read_text())["path"] not in ENDPOINTS:
        return False
    return body.read_bytes().rstrip().endswith(b"data: [DONE]")


USABLE = sorted(trace.name for trace in TRACES.iterdir() if trace.is_dir() and usable(trace))


class Player:
    """A server that answers any request with the recording named in `x-sim-trace`, in pieces of `x-sim-cut` bytes."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                await reader.readexactly(int(headers["content-length"]))
                body = (TRACES / headers["x-sim-trace"] / "body.sse").read_bytes()
                cut = int(headers["x-sim-cut"]) or len(body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
                writer.write(b"transfer-encoding: chunked\r\n\r\n")
                for at in range(0, len(body), cut):
                    piece = body[at : at + cut]
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    if cut > 1 or at % 50 == 0:
                        await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def playing() -> AsyncIterator[tuple[RunningGateway, AsyncOpenAI]]:
    server = await asyncio.start_server(Player().answer, "127.0.0.1", 0)
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


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def played() -> AsyncIterator[tuple[RunningGateway, AsyncOpenAI]]:
    async with playing() as both:
        yield both


async def heard(client: AsyncOpenAI, trace: str, cut: int, window: str) -> tuple[dict[str, Any], str, int]:
    """What the client assembles, the error it is told, and the number of chunks."""
    headers = {"x-sim-trace": trace, "x-sim-cut": str(cut), "x-tokenlane-buffer": window}
    endpoint = json.loads((TRACES / trace / "request.json").read_text())["path"]
    chunks: list[Any] = []
    try:
        if endpoint == ENDPOINTS[0]:
            stream: Any = await client.chat.completions.create(
                model="m", messages=[], stream=True, extra_headers=headers
            )
        else:
            stream = await client.completions.create(model="m", prompt="p", stream=True, extra_headers=headers)
        async for chunk in stream:
            chunks.append(chunk)  # noqa: PERF401 - what came before an error counts
    except openai.APIError as error:
        return assembled(chunks), error.message, len(chunks)
    return assembled(chunks), "", len(chunks)


@pytest.mark.parametrize("trace", USABLE)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_recorded_stream_means_the_same_through_the_gateway(
    trace: str, played: tuple[RunningGateway, AsyncOpenAI]
) -> None:
    """Cases H14 to H32, with what vLLM really sent."""
    gateway, direct = played
    expected, error, count = await heard(direct, trace, 0, WINDOWS[0])
    for cut in CUTS:
        for window in WINDOWS if cut in {0, 7} else WINDOWS[1:2]:
            got, told, events = await heard(gateway.openai, trace, cut, window)
            assert got == expected, (cut, window)
            assert (told == "") == (error == "")
            assert events <= count
    await gateway.settles()


def test_there_are_recordings() -> None:
    assert len(USABLE) > 60
