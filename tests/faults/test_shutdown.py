"""The end of a real process: streams finish within the grace, and what is left then ends with an event."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.asking import Answer, Client, ask, body, request

ROOT = str(Path(__file__).parents[2])


@asynccontextmanager
async def process(
    *, forced: bool = False, log: list[str] | None = None, **settings: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`tokenlane serve` with embedded engines, and its URL. Only an end that was forced may leave tracebacks. `log` gets what it said."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOKENLANE_")}
    environment |= {"TOKENLANE_SERVER__PORT": "0", "TOKENLANE_SIM__TTFT_MS": "5", "TOKENLANE_SIM__ITL_MS": "10"}
    environment |= {"PYTHONPATH": ROOT, "WEB_CONCURRENCY": "4"} | {f"TOKENLANE_{k}": v for k, v in settings.items()}
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from app.cli import main; raise SystemExit(main())", "serve"),
        env=environment,
        cwd="/",
        stderr=asyncio.subprocess.PIPE,
    )
    assert started.stderr is not None
    try:
        said = ""
        async with asyncio.timeout(60):
            while not (url := re.search(r"serves on (\S+)", said)):
                line = (await started.stderr.readline()).decode()
                assert line, said
                said += line
        draining = asyncio.create_task(started.stderr.read())
        yield started, url[1]
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()
    said += (await draining).decode()
    assert forced or "Traceback" not in said, said
    if log is not None:
        log.append(said)


def children_of(pid: int) -> list[str]:
    """Where the system tells."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return listed.read_text().split() if listed.exists() else []


async def ended(started: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(30):
        return await started.wait()


async def stream(url: str, **headers: str) -> "asyncio.Task[Answer]":
    """The reading of a stream whose first event has come."""
    begun = asyncio.Event()

    async def reading() -> Answer:
        async with Client(url) as client:
            await client.send(request(**headers))
            await client.until(b"data: ")
            begun.set()
            return await client.rest()

    task = asyncio.create_task(reading())
    await begun.wait()
    return task


async def test_forty_streams_finish_within_the_grace_while_the_new_are_refused() -> None:
    """Case H61: none is cut; not ready at once; new requests get a 503 with a time; the exit status is 0."""
    settings: dict[str, Any] = {
        "LANES__LOWLATENCY__POOL_SIZE": "41",
        "LANES__LOWLATENCY__QUEUE": "0",
        "SERVER__SHUTDOWN_GRACE_S": "20",
    }
    async with process(**settings) as (started, url), httpx.AsyncClient(trust_env=False) as http:
        streams = await asyncio.gather(*(stream(url, x_sim_tokens="150") for _ in range(40)))
        whole = asyncio.create_task(ask(url, body(stream=False), x_sim_tokens="150"))
        await asyncio.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        for _ in range(500):
            if (ready := await http.get(f"{url}/ready")).status_code != 200:
                break
            await asyncio.sleep(0.01)
        assert ready.json()["reasons"] == ["draining"]
        assert (await http.get(f"{url}/health")).status_code == 200
        for streamed in (True, False):
            refused = await ask(url, body(stream=streamed))
            assert (refused.status, refused.error["code"]) == (503, "shutting_down")
            assert int(refused.headers["retry-after"]) >= 1
        answers = await asyncio.gather(*streams)
        assert all(a.done and a.whole for a in answers)
        assert (await whole).status == 200
        assert await ended(started) == 0


async def test_after_the_grace_each_stream_ends_with_an_event_and_each_other_request_with_a_503() -> None:
    """Case H61: also those that wait in the queue, which are refused at once."""
    settings: dict[str, Any] = {"LANES__LOWLATENCY__POOL_SIZE": "4", "SERVER__SHUTDOWN_GRACE_S": "1"}
    async with process(**settings) as (started, url):
        streams = [await stream(url, x_sim_tokens="100000") for _ in range(3)]
        whole = asyncio.create_task(ask(url, body(stream=False), x_sim_ttft_ms="60000"))
        await asyncio.sleep(0.2)
        queued = [asyncio.create_task(ask(url, body(stream=streamed))) for streamed in (True, False)]
        await asyncio.sleep(0.2)
        started.send_signal(signal.SIGTERM)
        for waiting in queued:
            answer = await waiting
            assert (answer.status, answer.error["code"]) == (503, "shutting_down")
            assert answer.headers["retry-after"]
            assert not whole.done()
        for reading in streams:
            answer = await reading
            assert (answer.status, answer.error["code"]) == (200, "shutting_down")
            assert answer.text
            assert answer.whole
            assert not answer.done
        assert (await whole).status == 503
        assert await ended(started) == 0


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_at_once(first: signal.Signals) -> None:
    """Case H61."""
    async with process(forced=True, SERVER__SHUTDOWN_GRACE_S="600") as (started, url):
        reading = await stream(url, x_sim_tokens="100000")
        started.send_signal(first)
        await asyncio.sleep(0.3)
        assert started.returncode is None
        started.send_signal(signal.SIGTERM)
        assert await ended(started) == 0
        assert not (await reading).done


async def test_an_idle_gateway_ends_at_once_and_is_one_process() -> None:
    """Case H62: slots are of one process, so WEB_CONCURRENCY starts no others; a kept-alive connection holds up nobody."""
    async with process(SERVER__SHUTDOWN_GRACE_S="600") as (started, url), httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"{url}/ready")).status_code == 200
        assert not children_of(started.pid)
        started.send_signal(signal.SIGTERM)
        assert await ended(started) == 0


async def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    """Cases H57 and H61."""
    settings: dict[str, Any] = {"SERVER__SHUTDOWN_GRACE_S": "0", "SIM__ITL_MS": "0"}
    async with process(**settings) as (started, url), Client(url, receive_buffer=4096) as client:
        await client.send(request(x_sim_tokens="900000"))
        await client.until(b"data: ")
        await asyncio.sleep(0.5)
        started.send_signal(signal.SIGTERM)
        assert await ended(started) == 0
