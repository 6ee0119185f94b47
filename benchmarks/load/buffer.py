"""What the token buffer does to a stream, at several paces of the engine: `make bench-load`.

One simulated engine and one gateway, each a process of its own; a client that reads raw bytes asks both in turn,
`--rounds` times. Each token carries the time at which the engine sent it, so that its age at the client is known.
Prints a Markdown table and, with `--json FILE`, writes the figures with machine, versions and commit.

    events   `data:` events a token                     bytes   body bytes a token
    TTFT     to the first token, median, milliseconds   age     from the engine's sending to the client, milliseconds
    CPU      of the gateway's process, microseconds a token
"""

import argparse
import asyncio
import datetime as dt
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

ENGINE, GATEWAY = 21080, 21081
PACES = {3.0: 400, 12.0: 160, 20.0: 128, 85.0: 40}
"""Milliseconds a token -> tokens of an answer."""

STAMP = re.compile(rb" @([0-9a-f]{16})")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Seen:
    """What came of some streams of one kind."""

    tokens: int = 0
    events: int = 0
    size: int = 0
    ttft: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    cpu: float = 0.0


async def one(port: int, pace: float, tokens: int, seen: Seen) -> None:
    """One stream, read to its end."""
    body = json.dumps(
        {"model": "gpt-oss-20b", "stream": True, "max_tokens": tokens, "messages": [{"role": "user", "content": "hi"}]}
    )
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"x-sim-ttft-ms: 0\r\nx-sim-itl-ms: {pace}\r\nx-sim-stamp: 1\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    asked = time.monotonic()
    writer.write((head + body).encode())
    whole = b""
    first = None
    while data := await reader.read(2**16):
        now = time.monotonic_ns() // 1000
        stamps = STAMP.findall(data)
        if stamps and first is None:
            first = time.monotonic() - asked
            seen.ttft.append(first * 1000)
        seen.ages += [(now - int(stamp, 16)) / 1000 for stamp in stamps]
        whole += data
    writer.close()
    await writer.wait_closed()
    if not whole.rstrip().endswith(b"data: [DONE]\n\n\r\n0") or len(STAMP.findall(whole)) != tokens:
        raise SystemExit(f"a wrong answer from port {port}: {whole[-200:]!r}")
    seen.tokens += tokens
    seen.events += whole.count(b"data: {")
    seen.size += len(whole.partition(b"\r\n\r\n")[2])


async def streams(port: int, pace: float, count: int, seen: Seen) -> None:
    """Some streams at once, begun at different moments of a step."""

    async def late(number: int) -> None:
        await asyncio.sleep(number * pace / count / 1000)
        await one(port, pace, PACES[pace], seen)

    await asyncio.gather(*(late(number) for number in range(count)))


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def served() -> Iterator[int]:
    """An engine and a gateway in front of it; the gateway's process id."""
    tokenlane = Path(sys.executable).parent / "tokenlane"
    engine = f'[{{"url":"http://127.0.0.1:{ENGINE}","kind":"sim"}}]'
    lanes = {f"TOKENLANE_LANES__{lane}__ENGINES": engine for lane in ("LOWLATENCY", "BATCH")}
    lanes["TOKENLANE_LANES__BATCH__ENGINES"] = engine.replace('"kind"', '"name":"batch-0","kind"')
    env = {**os.environ, **lanes, "TOKENLANE_LANES__LOWLATENCY__POOL_SIZE": "256"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    commands = ([tokenlane, "sim", "--port", str(ENGINE)], [tokenlane, "serve", "--port", str(GATEWAY)])
    processes = [subprocess.Popen([str(word) for word in command], env=env, **quiet) for command in commands]
    try:
        for port in (ENGINE, GATEWAY):
            asyncio.run(up(port))
        yield processes[1].pid
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


async def up(port: int) -> None:
    """Waits until somebody listens."""
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit(f"nobody listens on {port}")


def measure(pid: int, rounds: int, count: int) -> dict[float, dict[str, Seen]]:
    """Every pace, engine and gateway in turn."""
    asyncio.run(streams(GATEWAY, 3.0, count, Seen()))  # what is slow once
    figures: dict[float, dict[str, Seen]] = {pace: {"engine": Seen(), "gateway": Seen()} for pace in PACES}
    for _ in range(rounds):
        for pace, both in figures.items():
            for name, port in (("engine", ENGINE), ("gateway", GATEWAY)):
                before = cpu_of(pid)
                asyncio.run(streams(port, pace, count, both[name]))
                both[name].cpu += cpu_of(pid) - before
    return figures


def row(pace: float, engine: Seen, gateway: Seen) -> dict[str, float]:
    """The figures of one pace."""
    ages = statistics.quantiles(gateway.ages, n=100)
    return {
        "ms a token": pace,
        "events direct": engine.events / engine.tokens,
        "events": gateway.events / gateway.tokens,
        "bytes direct": engine.size / engine.tokens,
        "bytes": gateway.size / gateway.tokens,
        "TTFT direct": statistics.median(engine.ttft),
        "TTFT": statistics.median(gateway.ttft),
        "age p50": ages[49],
        "age p99": ages[98],
        "CPU": gateway.cpu / gateway.tokens * 1e6,
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with served() as pid:
        figures = measure(pid, asked.rounds, asked.streams)
    rows = [row(pace, both["engine"], both["gateway"]) for pace, both in figures.items()]
    print("Pairs are direct / through the gateway; ages are those through the gateway.\n")
    print("| ms a token | events a token | bytes a token | TTFT ms | age p50, p99 ms | CPU µs a token |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in rows:
        print(
            f"| {r['ms a token']:.0f} | {r['events direct']:.2f} / {r['events']:.2f} "
            f"| {r['bytes direct']:.0f} / {r['bytes']:.0f} | {r['TTFT direct']:.1f} / {r['TTFT']:.1f} "
            f"| {r['age p50']:.1f}, {r['age p99']:.1f} | {r['CPU']:.0f} |"
        )
    if asked.json:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        packages = {name: version(name) for name in ("tokenlane", "uvicorn", "uvloop", "httptools", "fastapi")}
        about = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "commit": commit,
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "streams": asked.streams,
            "rounds": asked.rounds,
            "packages": packages,
        }
        asked.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
