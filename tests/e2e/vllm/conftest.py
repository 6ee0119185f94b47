"""Real vLLM, an engine for each of two lanes, and a real gateway process in front of them, for the whole session.

The engines take about a minute to start, and the first time ever one more to install. To use engines that already run,
set TOKENLANE_E2E_ENGINES to what `VLLM_ENABLE_RESPONSES_API_STORE=1 run.py --engines-only` prints.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "scripts" / "vllm_cpu"
TO_STOP = 20
"""Seconds that the launcher has to stop two engines; it needs one or two."""
TO_START = 30
"""Seconds that the gateway has to become ready in front of engines that are up."""

KEEPS = {"VLLM_ENABLE_RESPONSES_API_STORE": "1"}
"""Engines that keep responses, to be asked for by their id."""

PATIENT = {"TOKENLANE_LANES__BATCH__BUFFER__TOKENS": "8", "TOKENLANE_LANES__BATCH__BUFFER__DELAY_MS": "900"}
"""A buffer that merges although an engine on one core says a token only every 20 to 90 ms."""


@dataclass(frozen=True)
class Engine:
    """A running vLLM."""

    url: str

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels, as the engine reports it now."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))

    def running(self) -> float:
        """Requests that it works on or has waiting."""
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def client(self) -> OpenAI:
        """The official client, straight to the engine."""
        return client_of(self.url)


def until_running(engine: Engine, counts: Container[float], seconds: float) -> None:
    """Waits until the number of requests that the engine works on is one of these."""
    deadline = time.monotonic() + seconds
    while (running := engine.running()) not in counts:
        assert time.monotonic() < deadline, f"{running} requests run after {seconds} s"
        time.sleep(0.05)


def client_of(url: str) -> OpenAI:
    """The official client; what fails is not tried again."""
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def engines() -> Iterator[dict[str, Engine]]:
    """The engine of each lane, warmed up."""
    if given := os.environ.get("TOKENLANE_E2E_ENGINES"):
        yield warmed_up(json.loads(given))
        return
    # the guard stops the launcher, whatever becomes of this process
    guarded: list[str | Path] = [
        sys.executable,
        SCRIPTS / "guard.py",
        str(TO_STOP),
        sys.executable,
        SCRIPTS / "run.py",
        "--engines-only",
    ]
    variables = os.environ | KEEPS
    with subprocess.Popen(guarded, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as launcher:
        assert launcher.stdin
        assert launcher.stdout
        try:
            line = launcher.stdout.readline()
            assert line, "the launcher ended; it said why on standard error"
            yield warmed_up(json.loads(line))
        finally:
            launcher.stdin.close()
            launcher.wait(TO_STOP + 10)


def warmed_up(urls: dict[str, str]) -> dict[str, Engine]:
    """The engines, after a first request with logprobs each: it compiles for 20 s on a new machine, 2 s on others."""
    engines = {lane: Engine(url) for lane, url in urls.items()}
    for engine in engines.values():
        engine.client().completions.create(model="smollm2", prompt="One", max_tokens=1, logprobs=1)
    return engines


@pytest.fixture(scope="session")
def gateway(engines: dict[str, Engine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway process with a lane in front of each engine, ready; the batch lane holds text for long."""
    lanes = {f"TOKENLANE_LANES__{lane.upper()}__ENGINES": json.dumps([e.url]) for lane, e in engines.items()}
    with running_gateway(lanes | PATIENT, tmp_path_factory.mktemp("gateway")) as url:
        yield url


NO_WARM_UP = {"TOKENLANE_WARMUP__MODE": "off"}
"""The engines of the session are warm."""


@contextmanager
def running_gateway(settings: dict[str, str], folder: Path) -> Iterator[str]:
    """A gateway process with `settings` and no others, ready; fails the test unless it ends with 0 when told to."""
    with started_gateway(NO_WARM_UP | settings, folder) as started:
        until_ready(*started)
        yield started[0]


@contextmanager
def started_gateway(settings: dict[str, str], folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]", Path]]:
    """The URL, the process and the log of a gateway that begins to serve; it has to end with 0 when told to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOKENLANE_")}
    command: list[str | Path] = [Path(sys.executable).with_name("tokenlane"), "serve", "--port", str(port)]
    log = folder / "gateway.log"
    with log.open("wb") as output, subprocess.Popen(command, cwd=folder, env=kept | settings, stderr=output) as process:
        try:
            yield url, process, log
        finally:
            process.terminate()
            code = process.wait(60)
    assert code == 0, log.read_text()


def until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when GET /ready answers 200."""
    deadline = time.monotonic() + TO_START
    while not answers(f"{url}/ready"):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def answers(url: str) -> bool:
    """Whether GET `url` gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:  # nobody listens, or 503
        return False


@pytest.fixture(scope="session")
def client(gateway: str) -> Iterator[OpenAI]:
    """The official client in front of the gateway."""
    with client_of(gateway) as client:
        yield client
