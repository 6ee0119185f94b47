"""Requests that come on one connection without waiting for the answer before."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.sim import SimSettings
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim

SLOW = SimSettings(ttft_ms=1, itl_ms=20, tokens=40)
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
STREAM = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    % (len(BODY), BODY)
)
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def connected(gateway: RunningGateway) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_a_request_behind_a_stream_is_answered_after_it() -> None:
    async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=0.5, tokens=8)) as (gateway, _):
        async with connected(gateway) as (reader, writer):
            writer.write(STREAM + MODELS)
            async with asyncio.timeout(10):
                first = await reader.readuntil(b"data: [DONE]\n\n\r\n0\r\n\r\n")
                second = await reader.readuntil(b"\r\n\r\n")
        assert first.count(b"HTTP/1.1") == 1
        assert second.startswith(b"HTTP/1.1 200")


async def test_a_client_that_leaves_a_stream_with_a_request_behind_it_leaves_nothing() -> None:
    async with gateway_on_sim(SLOW) as (gateway, _):
        async with connected(gateway) as (reader, writer):
            writer.write(STREAM + MODELS)
            await reader.readuntil(b"data: ")
        async with asyncio.timeout(5):
            while any(gateway.held().values()):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            while [task for task in asyncio.all_tasks() if "run_asgi" in str(task.get_coro())]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_garbage_behind_a_request_and_a_stream_closes_and_writes_nothing_into_the_stream() -> None:
    async with gateway_on_sim(SLOW) as (gateway, _):
        async with connected(gateway) as (reader, writer):
            writer.write(STREAM)
            came = await reader.readuntil(b"data: ")
            writer.write(MODELS + b"GARBAGE\r\n\r\n")
            async with asyncio.timeout(10):
                came += await reader.read()
        assert came.count(b"HTTP/1.1") == 1
        assert b"400" not in came.partition(b"\r\n\r\n")[2]


async def test_garbage_alone_is_a_400() -> None:
    async with gateway_on_sim(SLOW) as (gateway, _), connected(gateway) as (reader, writer):
        writer.write(b"GARBAGE\r\n\r\n")
        async with asyncio.timeout(10):
            assert (await reader.read()).startswith(b"HTTP/1.1 400")
