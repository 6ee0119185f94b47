"""Recorded streams of real vLLM, replayed through the gateway: the official client must not see a difference.

Each recording is played at several cuts of its bytes and read through several windows. What the official client
assembles is compared with what it assembles from the recording itself.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.fakes.assembly import assembled
from tests.fakes.player import TRACES, playing
from tests.fakes.running_gateway import RunningGateway

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
