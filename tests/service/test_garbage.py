"""A request leaves no cycles of references: what it held is freed when it ends, not when the collector comes round.

Collections are rare while the gateway serves (`app.serve`), so memory would grow with every request that left some.
"""

import asyncio
import gc
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.sim import SimSettings
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim

REQUESTS = 5
OURS = ("app.", "gateway.", "uvicorn.")


@contextmanager
def garbage() -> Iterator[Counter[str]]:
    """What the collector would find of the block, once the block is over: objects of ours by type."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        types = [type(each) for each in gc.garbage]
        found.update(
            each.__qualname__ for each in types if each.__module__.startswith(OURS) and "sim" not in each.__module__
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


FAULTS = ["", "status:400", "status:503", "reset@0", "reset@3", "cut@3", "garbage@1", "only_done", "error_event@3"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_leaves_nothing_for_the_garbage_collector(stream: bool, fault: str) -> None:
    async with gateway_on_sim(health={"failures": 100}) as (gateway, _):
        body = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
        headers = {"x-sim-fault": fault} if fault else {}
        await gateway.http.post("/v1/chat/completions", json=body, headers=headers)
        with garbage() as found:
            for _ in range(REQUESTS):
                answer = await gateway.http.post("/v1/chat/completions", json=body, headers=headers)
                assert fault or answer.status_code == 200
        assert not {name: count for name, count in found.items() if count >= REQUESTS}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_whose_client_left_leaves_nothing_either(stream: bool) -> None:
    async with gateway_on_sim(SimSettings(ttft_ms=30, itl_ms=30)) as (gateway, _):
        await _leave(gateway, stream)
        with garbage() as found:
            for _ in range(REQUESTS):
                await _leave(gateway, stream)
        assert not {name: count for name, count in found.items() if count >= REQUESTS}


async def _leave(gateway: RunningGateway, stream: bool) -> None:
    """A client that closes its connection when its request has been at the engine for a while."""
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": stream}).encode()
    port = int(gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}\r\n".encode() + body)
    if stream:
        await reader.readuntil(b"data: ")
    while not gateway.held()["connections"]:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    writer.close()
    await writer.wait_closed()
    async with asyncio.timeout(10):
        while any(gateway.held().values()):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
