"""A real gateway, a real browser, and an engine that says what a test wants.

Needs Debian's chromium and the package playwright; without the package nothing here is collected.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.page.speaking_engine import SpeakingEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

if find_spec("playwright") is None:
    collect_ignore_glob = ["test_*.py"]

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
"""Chromium gives up what it loads when anybody adds an interface to the machine, a container for instance."""

ROOT = Path(__file__).parents[2]
SERVES = re.compile(r"tokenlane serves on (http://\S+)")
DESK: ViewportSize = {"width": 1280, "height": 800}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.page)


@pytest.fixture(scope="session")
def _speaker() -> Iterator[SpeakingEngine]:
    with SpeakingEngine() as engine:
        yield engine


@pytest.fixture
def engine(_speaker: SpeakingEngine) -> Iterator[SpeakingEngine]:
    """Behind the lanes `lowlatency` and `narrow`."""
    _speaker.forget()
    yield _speaker
    _speaker.forget()


@pytest.fixture(scope="session")
def gateway(_speaker: SpeakingEngine) -> Iterator[str]:
    """The URL of a gateway in a process of its own. Lanes: `lowlatency`, `narrow` (one slot, one may wait), `batch`."""
    lanes = {
        "lowlatency": {"engines": [{"url": _speaker.url, "name": "engine-0"}]},
        "narrow": {"engines": [{"url": _speaker.url, "name": "engine-1"}], "slots": 1, "queue": 1},
        "batch": {"engines": [{"url": _speaker.url, "name": "engine-2", "kind": "sim"}]},
    }
    with serving(f"lanes={json.dumps(lanes)}") as url:
        yield url


@pytest.fixture(scope="session")
def simulation() -> Iterator[str]:
    """The URL of a gateway as it is without any settings: simulated engines."""
    with serving() as url:
        yield url


@contextmanager
def serving(*settings: str) -> Iterator[str]:
    """A gateway with these settings for as long as the block lasts; gives its URL."""
    given = [part for setting in ("server.port=0", *settings) for part in ("--set", setting)]
    start = "import sys; from app.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "serve", *given]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TOKENLANE_")}
    with subprocess.Popen(command, cwd=ROOT, env=plain, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            url = _announced(process.stderr)
            reader = Thread(target=process.stderr.read)  # so that the pipe never fills
            reader.start()
            _wait_until_ready(url)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=20)
    reader.join()


def _announced(log: IO[str]) -> str:
    said = []
    for line in log:
        said.append(line)
        if found := SERVES.search(line):
            return found[1]
    raise AssertionError("".join(said))


def _wait_until_ready(url: str) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/ready") as answer:
                answer.read()
                return
        except urllib.error.HTTPError as error:
            error.close()
        time.sleep(0.05)
    raise AssertionError("the gateway is not ready")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - see collect_ignore_glob

    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile without a past."""
    context = browser.new_context(viewport=DESK, locale="en-US", reduced_motion="reduce")
    yield context
    context.close()


class Chat:
    """The page as a person uses it. It fails the test at the end if the page has logged an error."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))

    def open(self, path: str = "/") -> Chat:
        self.page.goto(self.url + path)
        self.page.wait_for_selector(".box textarea, .status")
        self.problems = [problem for problem in self.problems if NETWORK_CHANGED not in problem]
        return self

    def say(self, text: str) -> None:
        self.box.fill(text)
        self.box.press("Enter")

    def ask(self, text: str) -> None:
        """Says something and waits for the end of the answer."""
        self.say(text)
        self.settled()

    def settled(self) -> None:
        self.page.wait_for_selector(".answer.last[aria-busy=false]")

    @property
    def box(self) -> Any:
        return self.page.locator(".box textarea")

    @property
    def answer(self) -> Any:
        return self.page.locator(".answer.last")

    @property
    def written(self) -> str:
        """The text of the last answer."""
        return str(self.answer.locator(".markdown").inner_text())

    def button(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)

    def choose_lane(self, name: str) -> None:
        self.page.locator(".box select").nth(1).select_option(name)

    def stored(self) -> list[dict[str, Any]]:
        """The messages of the shown conversation as IndexedDB has them."""
        module = "import(document.querySelector('script[type=module]').src.replace('main.js', 'conversations.js'))"
        id_ = self.page.evaluate("location.hash.split('/')[2]")
        return list(self.page.evaluate(f"async (id) => (await ({module})).messagesOf(id)", id_) or [])

    def module(self, name: str) -> str:
        """The address of a module of the page."""
        main = self.page.get_attribute("script[type=module]", "src")
        assert main is not None
        return f"/{main.removesuffix('main.js')}{name}"

    def check(self) -> None:
        left = [problem for problem in self.problems if not any(words in problem for words in self.expected)]
        assert not left


@pytest.fixture
def chat(context: BrowserContext, gateway: str, engine: SpeakingEngine) -> Iterator[Chat]:
    """The page, open and empty."""
    chat = Chat(context.new_page(), gateway).open()
    yield chat
    chat.check()
