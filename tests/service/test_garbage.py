"""A request leaves no cycles of references: what it held is freed when it ends, not when the collector comes round.

Collections are rare while the gateway serves (`app.serve`), so memory would grow with every request that left some.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.running_gateway import gateway_on_sim

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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_leaves_nothing_for_the_garbage_collector(stream: bool) -> None:
    async with gateway_on_sim() as (gateway, _):
        body = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
        await gateway.http.post("/v1/chat/completions", json=body)
        with garbage() as found:
            for _ in range(REQUESTS):
                answer = await gateway.http.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200
        assert not {name: count for name, count in found.items() if count >= REQUESTS}
