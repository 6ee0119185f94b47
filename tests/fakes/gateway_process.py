"""A gateway as a process of its own, that can be killed."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.types import Batch

CHAT = "/v1/chat/completions"
OVER = {"completed", "failed", "expired", "cancelled"}
SERVES = re.compile(rb"tokenlane serves on (\S+)")


class GatewayProcess:
    """One process, once it serves.

    Attributes:
        openai: the official client for it.
    """

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.openai = AsyncOpenAI(base_url=f"{url}/v1", api_key="client-key", max_retries=0, timeout=30)

    async def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does."""
        self._process.kill()
        await self._process.wait()

    async def terminate(self) -> int:
        """SIGTERM; returns its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    async def batch(self, lines: int) -> Batch:
        """A batch of as many chats, whose prompts are their custom ids."""
        rows = [{"custom_id": f"id-{n}", "method": "POST", "url": CHAT, "body": body(f"id-{n}")} for n in range(lines)]
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        file = await self.openai.files.create(file=("in.jsonl", data), purpose="batch")
        return await self.openai.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")

    async def ended(self, batch_id: str, seconds: float = 60) -> Batch:
        """The batch once it is over."""
        async with asyncio.timeout(seconds):
            while (batch := await self.openai.batches.retrieve(batch_id)).status not in OVER:  # noqa: ASYNC110 - as clients do
                await asyncio.sleep(0.1)
        return batch

    async def answers(self, batch: Batch) -> dict[str, str]:
        """custom_id -> answer; fails where a custom_id stands there twice."""
        assert batch.output_file_id is not None
        content = await self.openai.files.content(batch.output_file_id)
        lines = [json.loads(line) for line in content.text.splitlines()]
        found = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines}
        assert len(found) == len(lines)
        return found


def body(prompt: str) -> dict[str, Any]:
    """A chat that says one thing."""
    return {"model": "m", "messages": [{"role": "user", "content": prompt}]}


@asynccontextmanager
async def gateway_process(folder: Path, engine: str, **batch: Any) -> AsyncIterator[GatewayProcess]:
    """A gateway with one engine for both lanes and its data in `folder`; it is killed at the end."""
    options: dict[str, Any] = {"lease_s": 1, "poll_s": 0.1, "data_dir": str(folder)} | batch
    sets = {f"batch.{name}": value for name, value in options.items()}
    sets |= {f"lanes.{lane}.engines": json.dumps([{"url": engine, "kind": "sim"}]) for lane in ("lowlatency", "batch")}
    sets |= {
        "server.log_level": "warning",
        "server.port": 0,
        "server.access_log": "false",
        "server.shutdown_grace_s": 2,
        "health.interval_s": 0.2,
    }
    words = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("tokenlane"), "serve", *words, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    while not (found := SERVES.search(said)):
        line = await process.stderr.readline()
        assert line, said.decode()
        said += line
    reading = asyncio.create_task(process.stderr.read())
    gateway = GatewayProcess(process, found[1].decode())
    try:
        yield gateway
    finally:
        await gateway.openai.close()
        if process.returncode is None:
            await gateway.kill()
        await reading
