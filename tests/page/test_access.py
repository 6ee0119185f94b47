"""For everyone: keyboard alone, screen readers, contrast, less motion, small screens, any script and input method."""

from typing import Any

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.page.conftest import Chat
from tests.page.speaking_engine import DONE, SpeakingEngine, Wait, finish, paced, text, thoughts, usage, whole

PHONE: ViewportSize = {"width": 360, "height": 740}
RICH = "# Title\n\nText with `code`, a [link](https://example.com) and\n\n> a quote\n\n```python\n# note\nx = 'a' + str(1)\n```\n\n|a|b|\n|-|-|\n|1|2|\n"

CONTRASTS = """async () => {
  await Promise.all(document.getAnimations().map((a) => a.effect.getComputedTiming().endTime < 1e4 && a.finished));
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((value, i) => value * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (color) => {
    const [r, g, b] = color.map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    if (!element) return [255, 255, 255, 1];
    const color = rgba(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color : over(color, ground(element.parentElement));
  };
  const opacity = (element) => (element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1);
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(".unseen, .skip, option, noscript, svg, :disabled") || opacity(element) === 0) continue;
    const below = ground(element);
    const color = rgba(getComputedStyle(element).color);
    color[3] *= opacity(element);
    const [a, b] = [light(over(color, below)), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${walker.currentNode.data.slice(0, 30)}`);
  }
  return poor;
}"""

UNNAMED = """() => [...document.querySelectorAll("button, a[href], input:not([hidden]), select, textarea, meter")]
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
  .map((e) => e.outerHTML)"""


def focused(chat: Chat) -> str:
    return str(chat.page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent"))


def tab_to(chat: Chat, name: str, key: str = "Tab") -> None:
    for _ in range(40):
        chat.page.keyboard.press(key)
        if focused(chat) == name:
            return
    raise AssertionError(f"{name} cannot be reached")


def test_everything_can_be_done_with_the_keyboard(chat: Chat, engine: SpeakingEngine) -> None:
    assert focused(chat) == "Message"
    engine.plays(paced(text(*[f"word{n} " for n in range(200)]), 0.02))
    chat.page.keyboard.type("hello")
    chat.page.keyboard.press("Enter")
    expect(chat.answer.locator(".markdown")).to_contain_text("word3")
    tab_to(chat, "Stop")
    chat.page.keyboard.press("Enter")
    chat.settled()
    tab_to(chat, "Answer again", "Shift+Tab")
    chat.page.keyboard.press("Space")
    expect(chat.answer.locator(".markdown")).to_have_text("Fine.")
    tab_to(chat, "Settings", "Shift+Tab")
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("dialog")).to_be_visible()
    for _ in range(40):
        chat.page.keyboard.press("Tab")
        assert chat.page.evaluate(
            "!!document.activeElement.closest('dialog') || document.activeElement === document.body"
        )
    chat.page.keyboard.press("Escape")
    assert focused(chat) == "Settings"
    tab_to(chat, "Delete “hello”", "Shift+Tab")
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator(".list .name")).to_have_count(0)


def test_the_first_stop_of_the_keyboard_leads_to_the_box(chat: Chat) -> None:
    chat.page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    chat.page.keyboard.press("Tab")
    assert focused(chat) == "Skip to the message box"
    chat.page.keyboard.press("Enter")
    assert focused(chat) == "Message"


def test_every_control_has_a_name_and_the_page_has_its_landmarks(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(thoughts("hm"), text(RICH)))
    chat.ask("everything")
    assert chat.page.evaluate(UNNAMED) == []
    for role in ("main", "navigation", "banner"):
        expect(chat.page.get_by_role(role)).to_have_count(1 if role != "banner" else 0)  # the header is inside main
    expect(chat.page.get_by_role("article", name="Assistant")).to_have_count(1)
    expect(chat.page.get_by_role("heading", level=1).first).to_have_text("everything")
    chat.button("Settings").click()
    assert chat.page.evaluate(UNNAMED) == []


def test_a_screen_reader_hears_the_state_and_not_each_token(chat: Chat, engine: SpeakingEngine) -> None:
    chat.page.evaluate(
        """() => {
          window.heard = [];
          const region = document.querySelector("[aria-live=polite]");
          new MutationObserver(() => heard.push(region.textContent)).observe(region, { characterData: true, childList: true, subtree: true });
        }"""
    )
    engine.plays(Wait(0.3), thoughts("hm"), Wait(0.3), paced(text(*["a "] * 30), 0.01), finish(), usage(30), DONE)
    chat.ask("hello")
    assert chat.page.evaluate("heard") == [
        "Sent. Waiting for the answer.",
        "The model is thinking.",
        "The answer is coming.",
        "The answer is complete.",
    ]
    live = chat.page.evaluate(
        "[...document.querySelectorAll('.turns [aria-live], .turns [role=status], .turns [role=log]')].length"
    )
    assert live == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_level_aa(chat: Chat, engine: SpeakingEngine, scheme: Any) -> None:
    chat.page.emulate_media(color_scheme=scheme)
    chat.page.wait_for_timeout(200)
    assert chat.page.evaluate(CONTRASTS) == []
    engine.plays(whole(thoughts("hm"), text(RICH)))
    chat.ask("everything")
    expect(chat.answer.locator(".hljs-comment")).to_be_visible()
    chat.answer.locator(".reasoning summary").click()
    engine.plays(text("half"), finish("length"), DONE)
    chat.ask("a remark")
    engine.plays(text("half"), Wait(0.1))
    chat.ask("an error")
    assert chat.page.evaluate(CONTRASTS) == []
    chat.button("Settings").click()
    assert chat.page.evaluate(CONTRASTS) == []
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("link", name="Status").click()
    expect(chat.page.locator(".lane").first).to_be_visible()
    assert chat.page.evaluate(CONTRASTS) == []


def test_nothing_moves_for_those_who_ask_for_less_motion(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(Wait(1), text("x"), finish(), DONE)
    chat.say("hello")
    expect(chat.answer.locator(".dot").first).to_be_visible()
    durations = chat.page.evaluate("document.getAnimations().map((a) => a.effect.getComputedTiming().activeDuration)")
    assert all(milliseconds < 1 for milliseconds in durations)


@pytest.mark.parametrize("path", ["/", "/#/status"])
def test_a_phone_shows_everything_without_scrolling_sideways(chat: Chat, engine: SpeakingEngine, path: str) -> None:
    engine.plays(whole(text(RICH, "\n\n```\n" + "x" * 300 + "\n```\n\n" + "y" * 300)))
    chat.page.set_viewport_size(PHONE)
    chat.ask("everything, and a very long title that cannot fit into the header of a phone")
    if path != "/":
        chat.open(path)
        expect(chat.page.locator(".lane canvas").first).to_be_visible()
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert chat.page.evaluate("document.querySelector('.scroller').scrollWidth <= innerWidth")


def test_the_list_of_a_phone_opens_over_the_page_and_closes(chat: Chat) -> None:
    chat.page.set_viewport_size(PHONE)
    chat.ask("hello")
    expect(chat.button("New chat")).not_to_be_visible()
    chat.button("Conversations").click()
    expect(chat.button("New chat")).to_be_visible()
    chat.page.get_by_role("link", name="hello").click()
    chat.button("Close the list of conversations").click()
    expect(chat.button("New chat")).not_to_be_visible()
    chat.button("Conversations").click()
    chat.button("New chat").click()
    expect(chat.page.locator(".welcome")).to_be_visible()
    expect(chat.button("Close the list of conversations")).not_to_be_visible()


def test_text_from_right_to_left_starts_at_the_right(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(text("שלום עולם\n\n- אחת\n\nleft again\n")))
    chat.ask("مرحبا بالعالم")
    direction = "e => getComputedStyle(e).direction"
    assert chat.page.locator(".said").evaluate(direction) == "rtl"
    paragraphs = chat.answer.locator(".markdown p, .markdown li")
    assert [p.evaluate(direction) for p in paragraphs.all()] == ["rtl", "rtl", "ltr"]
    expect(chat.page.locator(".list .name")).to_have_attribute("dir", "auto")


def test_enter_that_ends_a_composition_does_not_send(chat: Chat, engine: SpeakingEngine) -> None:
    client = chat.page.context.new_cdp_session(chat.page)
    chat.box.focus()
    client.send("Input.imeSetComposition", {"text": "ni", "selectionStart": 2, "selectionEnd": 2})
    composing = {"key": "Enter", "keyCode": 229, "isComposing": True, "bubbles": True, "cancelable": True}
    chat.box.evaluate("(box, init) => box.dispatchEvent(new KeyboardEvent('keydown', init))", composing)
    client.send("Input.insertText", {"text": "你"})
    expect(chat.box).to_have_value("你")
    assert not engine.asked
    chat.box.press("Enter")
    chat.settled()
    assert engine.asked[-1].body["messages"][-1]["content"] == "你"


def test_shift_and_enter_start_a_new_line(chat: Chat, engine: SpeakingEngine) -> None:
    chat.box.press_sequentially("one")
    chat.box.press("Shift+Enter")
    chat.box.press_sequentially("two")
    assert not engine.asked
    chat.box.press("Enter")
    chat.settled()
    assert engine.asked[-1].body["messages"][-1]["content"] == "one\ntwo"
