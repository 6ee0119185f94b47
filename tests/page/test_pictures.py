"""The pictures of the documentation: written to docs/images when TOKENLANE_SCREENSHOTS=1 is set."""

import os
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.page.conftest import DESK, ROOT, Chat
from tests.page.speaking_engine import DONE, SpeakingEngine, Wait, finish, paced, text, thoughts, usage, whole

pytestmark = pytest.mark.skipif(os.environ.get("TOKENLANE_SCREENSHOTS") != "1", reason="writes pictures into the tree")

FOLDER = ROOT / "docs" / "images"

ANSWER = """**TTFT** is how long the first token takes, **ITL** the gap between two tokens after it. A person feels both, \
in this order.

| | TTFT | ITL |
|---|---|---|
| What it is made of | queue, prefill | one decode step |
| Grows with | length of the prompt | requests in the batch |
| Lane that cares | `lowlatency` | `batch` |

To measure both on a stream:

```python
def latencies(times: list[float], sent: float) -> tuple[float, list[float]]:
    # seconds to the first token, and between each two
    return times[0] - sent, [b - a for a, b in zip(times, times[1:])]
```
"""
CHINESE = """**TTFT** 是第一个词元到达所需的时间, **ITL** 是其后两个词元之间的间隔。

1. 先看 TTFT, 它决定“是否灵敏”。
2. 再看 ITL, 它决定“读起来是否流畅”。

```python
ttft = times[0] - sent
```
"""


@pytest.fixture
def desk(context: BrowserContext, gateway: str, engine: SpeakingEngine) -> Chat:
    return Chat(context.new_page(), gateway).open()


def take(page: Page, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    page.mouse.move(0, 0)
    page.wait_for_timeout(250)
    page.screenshot(path=FOLDER / f"{name}.png")


def conversation(chat: Chat, engine: SpeakingEngine) -> None:
    for question in ("Release notes for the gateway", "Plan for the load test", "Why is block size 16 the default?"):
        chat.button("New chat").click()
        chat.ask(question)
    chat.button("New chat").click()
    steps = paced(text(*ANSWER.split(" ")[0:1], *[f" {word}" for word in ANSWER.split(" ")[1:]]), 0.012)
    engine.plays(thoughts("Two numbers. "), Wait(1.3), thoughts("A table fits."), steps, finish(), usage(212), DONE)
    chat.ask("Compare TTFT and ITL, and show how to measure them")
    expect(chat.answer.locator(".hljs-keyword").first).to_be_visible()


def test_chat(desk: Chat, engine: SpeakingEngine) -> None:
    conversation(desk, engine)
    take(desk.page, "chat")
    desk.page.emulate_media(color_scheme="dark")
    take(desk.page, "chat-dark")
    desk.page.emulate_media(color_scheme="light")
    desk.button("Settings").click()
    take(desk.page, "settings")


def test_phone(browser: Browser, gateway: str, engine: SpeakingEngine) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, device_scale_factor=1.5, has_touch=True, is_mobile=True, locale="en-US"
    )
    chat = Chat(context.new_page(), gateway).open()
    engine.plays(thoughts("Two numbers. "), Wait(1.1), whole(text(ANSWER), tokens=212))
    chat.ask("Compare TTFT and ITL")
    take(chat.page, "chat-phone")
    context.close()


def test_chinese(browser: Browser, gateway: str, engine: SpeakingEngine) -> None:
    context = browser.new_context(viewport=DESK, locale="zh-CN", reduced_motion="reduce")
    chat = Chat(context.new_page(), gateway).open()
    engine.plays(whole(paced(text(*CHINESE), 0.008), tokens=118))
    chat.ask("TTFT 和 ITL 有什么区别")
    take(chat.page, "chat-chinese")
    context.close()


def test_status(browser: Browser, simulation: str) -> None:
    context: Any = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", reduced_motion="reduce")
    chat = Chat(context.new_page(), simulation).open()
    take(chat.page, "welcome")
    ask = """async ([lane, count]) => {
      const body = { model: "gpt-oss-20b", stream: true, messages: [{ role: "user", content: String(Math.random()) }] };
      const one = async (tokens) => (await fetch("/v1/chat/completions", { method: "POST",
        headers: { "content-type": "application/json", "x-tokenlane-lane": lane },
        body: JSON.stringify({ ...body, max_tokens: tokens }) })).text();
      await Promise.all(Array.from({ length: count }, (_, i) => one(40 + 30 * i)));
    }"""
    for round_ in range(7):
        chat.page.evaluate(ask, ["lowlatency", 2 + round_ % 3])
        chat.page.evaluate(ask, ["batch", 3 + round_ % 2])
        chat.page.wait_for_timeout(5000)
    chat.page.evaluate(f"void ({ask})(['lowlatency', 4]); void ({ask})(['batch', 4])")
    chat.page.goto(f"{simulation}/#/status")
    expect(chat.page.locator(".lane canvas").first).to_be_visible()
    chat.page.wait_for_timeout(1200)
    take(chat.page, "status")
    context.close()
