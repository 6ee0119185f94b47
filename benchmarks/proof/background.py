"""`python -m benchmarks.proof.background URL`: batch users in a closed loop until SIGTERM, a closed pipe, or a limit.

Five groups of users whose prompts and answers are between half and one and a half times as long as asked for, so that
the users do not move in step. A refusal is followed by another try. Prints the cell of all that ended, as JSON.
"""

import argparse
import asyncio
import json
import secrets
import signal
import sys
from collections.abc import Sequence

import uvloop

from app.bench.client import Client
from app.bench.connection import Patience
from app.bench.limits import allow_sockets
from app.bench.load import Load
from app.bench.runner import Runner
from app.bench.summary import Record, cell
from app.bench.target import target
from app.bench.workload import Workload
from benchmarks.proof.book import slim

SPREAD = (0.5, 0.75, 1.0, 1.25, 1.5)
RETRIES = 10_000


async def groups(options: argparse.Namespace) -> Record:
    """All groups at once, until they are told to stop; what came of them together."""
    where = target(options.url, lane=options.lane)
    async with Client(where, Patience(first=600, gap=120), retries=RETRIES) as client:
        tasks = [
            asyncio.create_task(_group(client, options, share, users))
            for share, users in zip(SPREAD, shares(options.users, len(SPREAD)), strict=True)
            if users
        ]
        loop = asyncio.get_running_loop()

        def stop() -> None:
            for task in tasks:
                task.cancel()

        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, stop)
        loop.add_reader(sys.stdin, stop)  # whoever started us has gone
        records = await asyncio.gather(*tasks)
        loop.remove_reader(sys.stdin)
    return together(records, options.users)


async def _group(client: Client, options: argparse.Namespace, share: float, users: int) -> Record:
    workload = Workload(
        options.model,
        options.endpoint,
        (max(1, round(options.prompt_tokens * share)),),
        max_tokens=max(1, round(options.max_tokens * share)),
        ignore_eos=True,
        seed=secrets.randbelow(2**31),
        extra=options.body,
    )
    load = Load(concurrency=users, duration=options.most_seconds)
    return await Runner(client, workload).measure(f"{share}", load)


def shares(users: int, parts: int) -> list[int]:
    """Users dealt out evenly."""
    return [users // parts + (part < users % parts) for part in range(parts)]


def together(records: Sequence[Record], users: int) -> Record:
    """The records of groups that ran at the same time as one."""
    seconds = max(record.seconds for record in records)
    whole = Record(Load(concurrency=users, duration=max(seconds, 0.001)), seconds=seconds, interrupted=True)
    for record in records:
        whole.outcomes += record.outcomes
        whole.cpu = max(whole.cpu, record.cpu)  # each has counted the whole process
    return whole


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("url")
    add("--model", required=True)
    add("--endpoint", default="completions", choices=("completions", "chat"))
    add("--users", type=int, default=64)
    add("--lane")
    add("--prompt-tokens", type=int, default=1024)
    add("--max-tokens", type=int, default=512)
    add("--most-seconds", type=float, default=300)
    add("--body", type=json.loads, default={}, metavar="JSON", help="more fields of each body")
    options = parser.parse_args()
    allow_sockets()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        record = runner.run(groups(options))
    print(json.dumps(slim(cell(record))))


if __name__ == "__main__":
    main()
