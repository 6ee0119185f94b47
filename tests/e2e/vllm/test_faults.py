"""Real vLLM that is paused, told to end, and killed in the middle of a stream, and comes back on the same port.

The client gets what was generated and a clear ending within the time that is allowed for a gap; the lane serves again by
itself once the engine does. One engine for all of it, started three times: about 40 s each.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.vllm.conftest import SCRIPTS, TO_STOP, Engine, answers, running_gateway

pytestmark = pytest.mark.vllm

GAP = 4.0
"""Seconds of silence that the gateway allows an engine."""
SLACK = 3.0
"""Seconds by which a busy machine may be late."""
TO_PROVE = 40.0
"""Seconds in which an engine that is up again has to be proven: the gateway asks every 30 s at the latest."""
ENOUGH = 20
"""Tokens that are seen before the engine is troubled."""
LONG = {"model": "smollm2", "max_tokens": 1500, "temperature": 0, "stream": True, "ignore_eos": True}
STORY: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Tell me a long story about the sea."}]


class Launched:
    """A vLLM that can be stopped and started again on its port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.engine = Engine(f"http://127.0.0.1:{port}")
        self._launcher: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts it; returns when it says that it is up."""
        command: list[str | Path] = [sys.executable, SCRIPTS / "guard.py", str(TO_STOP), sys.executable]
        command += [SCRIPTS / "run.py", "--engines-only", "--one-engine", "--lowlatency-port", str(self.port)]
        self._launcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._launcher.stdout
        assert self._launcher.stdout.readline(), "the launcher ended; it said why on standard error"

    def stop(self) -> None:
        """Ends whatever is left of it."""
        if self._launcher is not None:
            assert self._launcher.stdin
            with suppress(BrokenPipeError):
                self._launcher.stdin.close()
            self._launcher.wait(TO_STOP + 10)
            assert self._launcher.stdout
            self._launcher.stdout.close()
            self._launcher = None

    def server(self) -> int:
        """The process that listens."""
        return self._process(lambda line: line.startswith("VLLM::APIServer") or f"--port {self.port}" in line)

    def core(self) -> int:
        """The process that generates."""
        return self._process(lambda line: line.startswith("VLLM::EngineCore"))

    def _process(self, fits: Callable[[str], bool]) -> int:
        assert self._launcher is not None
        found = [pid for pid in descendants(self._launcher.pid) if fits(command_line(pid))]
        return found[-1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """The processes below one, parents before children."""
    below: list[int] = []
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                below += [child, *descendants(child)]
    return below


def command_line(pid: int) -> str:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


@pytest.fixture(scope="module")
def launched() -> Iterator[Launched]:
    engine = Launched(free_port())
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def single(launched: Launched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway in front of that engine alone."""
    settings = {
        "TOKENLANE_TOPOLOGY": "single",
        "TOKENLANE_LANES__LOWLATENCY__ENGINES": json.dumps([launched.engine.url]),
        "TOKENLANE_TIMEOUTS__GAP_S": str(GAP),
        "TOKENLANE_TIMEOUTS__FIRST_TOKEN_S": "30",
        "TOKENLANE_HEALTH__INTERVAL_S": "1",
    }
    with running_gateway(settings, tmp_path_factory.mktemp("gateway")) as url:
        yield url


@dataclass
class Told:
    """What a client has of a stream: its text, its last event, and the seconds since the engine was troubled."""

    text: str
    last: Any
    events: list[str]
    after: float


def troubled_stream(gateway: str, trouble: Callable[[], None]) -> Told:
    """A stream whose engine is troubled after some tokens, read to its end."""
    with asked(gateway) as answer:
        assert answer.status == 200
        events: list[str] = []
        while len(events) < ENOUGH:
            events += event_of(answer.readline())
        troubled_at = time.monotonic()
        trouble()
        while line := answer.readline():
            events += event_of(line)
        after = time.monotonic() - troubled_at
    read = [json.loads(event) for event in events if event != "[DONE]"]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in read if chunk.get("choices"))
    return Told(text, read[-1], events, after)


@contextmanager
def asked(gateway: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(gateway).netloc, timeout=60)
    body = json.dumps(LONG | {"messages": STORY})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def event_of(line: bytes) -> list[str]:
    return [line.decode().removeprefix("data: ").strip()] if line.startswith(b"data: ") else []


@pytest.fixture(scope="module")
def story(launched: Launched) -> str:
    """How the story begins, from the engine itself."""
    client = launched.engine.client()
    body: dict[str, Any] = {**LONG, "stream": False, "max_tokens": 3 * ENOUGH}
    body["extra_body"] = {"ignore_eos": body.pop("ignore_eos")}
    return client.chat.completions.create(messages=STORY, **body).choices[0].message.content or ""


def assert_ended_clearly(told: Told, story: str) -> None:
    assert len(told.text) > ENOUGH
    assert story.startswith(told.text) or told.text.startswith(story)
    assert told.last["error"]["message"]
    assert not any(chunk.get("choices") and chunk["choices"][0].get("finish_reason") for chunk in parsed(told))
    assert sum("error" in chunk for chunk in parsed(told)) == 1
    assert told.after < GAP + SLACK


def parsed(told: Told) -> list[Any]:
    return [json.loads(event) for event in told.events if event != "[DONE]"]


def assert_serves_again(gateway: str, story: str) -> None:
    """The lane takes requests by itself, and a real answer proves it."""
    until(lambda: answers(f"{gateway}/ready"), TO_PROVE)
    with asked(gateway) as answer:
        assert answer.status == 200
        events: list[str] = []
        while len(events) < ENOUGH:
            events += event_of(answer.readline())
    text = "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events)
    assert story.startswith(text) or text.startswith(story)


def until(reached: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)


def assert_refused(gateway: str) -> None:
    with asked(gateway) as answer:
        assert answer.status in {502, 503}
        assert answer.status == 502 or int(answer.headers["retry-after"]) >= 1
        assert json.loads(answer.read())["error"]["message"]


def test_an_engine_that_stands_still_ends_the_stream_and_serves_again_when_it_goes_on(
    single: str, launched: Launched, story: str
) -> None:
    """Case H4: its /health says 200 all the time."""
    core = launched.core()
    try:
        told = troubled_stream(single, lambda: os.kill(core, signal.SIGSTOP))
        assert_ended_clearly(told, story)
        assert told.after > GAP / 2
        assert told.last["error"]["code"] == "engine_timeout"
        with urllib.request.urlopen(f"{launched.engine.url}/health", timeout=5) as health:
            assert health.status == 200
    finally:
        os.kill(core, signal.SIGCONT)
    assert_serves_again(single, story)


def test_an_engine_that_is_told_to_end_ends_the_stream_and_serves_again_when_it_is_back(
    single: str, launched: Launched, story: str
) -> None:
    """Case H8. vLLM then hangs silently or sends an error; which, is a race."""
    told = troubled_stream(single, lambda: os.kill(launched.server(), signal.SIGTERM))
    assert_ended_clearly(told, story)
    launched.stop()
    assert_refused(single)
    launched.start()
    assert_serves_again(single, story)


def test_an_engine_whose_core_is_killed_ends_the_stream_and_serves_again_when_it_is_back(
    single: str, launched: Launched, story: str
) -> None:
    told = troubled_stream(single, lambda: os.kill(launched.core(), signal.SIGKILL))
    assert_ended_clearly(told, story)
    launched.stop()
    launched.start()
    assert_serves_again(single, story)


def test_an_engine_whose_server_is_killed_ends_the_stream_at_once(single: str, launched: Launched, story: str) -> None:
    told = troubled_stream(single, lambda: os.kill(launched.server(), signal.SIGKILL))
    assert_ended_clearly(told, story)
    assert told.after < GAP / 2
    assert "[DONE]" not in told.events
    assert told.last["error"]["code"] == "engine_broke"
    assert_refused(single)
