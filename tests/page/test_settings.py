"""The settings panel: what is chosen is what is sent, and the key is kept no longer than asked."""

from playwright.sync_api import Route, expect

from tests.page.conftest import Chat
from tests.page.speaking_engine import SpeakingEngine

EVERYTHING = {
    "System prompt": "Be brief.",
    "Temperature": "0.3",
    "Top p": "0.9",
    "Max tokens": "64",
    "Seed": "7",
    "Stop strings": "END\nSTOP",
    "Tokens": "8",
    "Delay in ms": "25",
}


def opened(chat: Chat) -> None:
    chat.button("Settings").click()
    expect(chat.page.get_by_role("dialog")).to_be_visible()


def closed(chat: Chat) -> None:
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_role("dialog")).to_have_count(0)


def fill(chat: Chat, label: str, value: str) -> None:
    chat.page.get_by_role("dialog").get_by_label(label, exact=True).fill(value)


def choose(chat: Chat, label: str, value: str) -> None:
    chat.page.get_by_role("dialog").get_by_label(label, exact=True).select_option(value)


def test_what_is_left_alone_is_not_sent(chat: Chat, engine: SpeakingEngine) -> None:
    chat.ask("hello")
    asked = engine.asked[-1]
    assert asked.body.keys() == {"model", "messages", "stream", "stream_options"}
    assert asked.body["model"] == "gpt-oss-20b"
    assert asked.body["stream_options"] == {"include_usage": True}


def test_everything_that_is_chosen_is_sent(chat: Chat, engine: SpeakingEngine) -> None:
    opened(chat)
    for label, value in EVERYTHING.items():
        fill(chat, label, value)
    choose(chat, "Lane", "batch")
    choose(chat, "Reasoning effort", "low")
    closed(chat)
    with chat.page.expect_request("**/v1/chat/completions") as request:
        chat.ask("hello")
    body = engine.asked[-1].body
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    sent = {name: body[name] for name in ("temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort")}
    assert sent == {
        "temperature": 0.3,
        "top_p": 0.9,
        "max_tokens": 64,
        "seed": 7,
        "stop": ["END", "STOP"],
        "reasoning_effort": "low",
    }
    headers = request.value.headers
    assert headers["x-tokenlane-lane"] == "batch"
    assert headers["x-tokenlane-buffer"] == "tokens=8,delay_ms=25"
    expect(chat.answer.locator(".meta-lane dd")).to_have_text("batch")


def test_a_value_out_of_its_bounds_is_not_taken(chat: Chat, engine: SpeakingEngine) -> None:
    opened(chat)
    fill(chat, "Tokens", "4")
    fill(chat, "Tokens", "400")
    closed(chat)
    with chat.page.expect_request("**/v1/chat/completions") as request:
        chat.ask("hello")
    assert request.value.headers["x-tokenlane-buffer"] == "tokens=4"


def test_settings_outlive_the_page_and_can_be_reset(chat: Chat) -> None:
    opened(chat)
    fill(chat, "Temperature", "0.5")
    closed(chat)
    chat.page.reload()
    opened(chat)
    field = chat.page.get_by_role("dialog").get_by_label("Temperature")
    expect(field).to_have_value("0.5")
    chat.button("Reset settings").click()
    expect(field).to_have_value("")


def test_defaults_come_from_the_server(chat: Chat) -> None:
    opened(chat)
    dialog = chat.page.get_by_role("dialog")
    expect(dialog.get_by_label("Tokens", exact=True)).to_have_attribute("placeholder", "4")
    expect(dialog.get_by_label("Delay in ms")).to_have_attribute("placeholder", "40")
    assert dialog.get_by_label("Lane", exact=True).locator("option").all_inner_texts() == [
        "lowlatency (default)",
        "lowlatency",
        "batch",
        "narrow",
    ]
    expect(dialog.locator(".set-foot")).to_contain_text("tokenlane 0.")


def test_a_simulated_lane_is_marked(chat: Chat) -> None:
    expect(chat.page.locator(".badge")).to_have_count(0)
    chat.choose_lane("batch")
    expect(chat.page.locator(".badge")).to_have_text("Simulated engine")


def storages(chat: Chat) -> str:
    return str(chat.page.evaluate("JSON.stringify(localStorage)"))


def test_the_key_is_sent_and_stays_in_this_tab_alone(chat: Chat, engine: SpeakingEngine) -> None:
    opened(chat)
    fill(chat, "API key", "sk-secret")
    closed(chat)
    with chat.page.expect_request("**/v1/chat/completions") as request:
        chat.ask("hello")
    assert request.value.headers["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in storages(chat)
    assert "sk-secret" not in str(chat.stored())
    chat.page.reload()
    opened(chat)
    expect(chat.page.get_by_label("API key", exact=True)).to_have_value("sk-secret")
    closed(chat)
    other = Chat(chat.page.context.new_page(), chat.url).open()
    opened(other)
    expect(other.page.get_by_label("API key", exact=True)).to_have_value("")
    other.check()


def test_the_key_is_kept_only_if_it_is_asked_for_and_goes_when_that_ends(chat: Chat) -> None:
    opened(chat)
    chat.page.get_by_label("Keep the key in this browser").check()
    fill(chat, "API key", "sk-secret")
    closed(chat)
    assert "sk-secret" in storages(chat)
    opened(chat)
    chat.page.get_by_label("Keep the key in this browser").uncheck()
    closed(chat)
    assert "sk-secret" not in storages(chat)


def test_the_theme_follows_the_system_unless_one_is_chosen(chat: Chat) -> None:
    body = chat.page.locator("body")
    light = body.evaluate("body => getComputedStyle(body).backgroundColor")
    chat.page.emulate_media(color_scheme="dark")
    expect(body).not_to_have_css("background-color", light)
    dark = body.evaluate("body => getComputedStyle(body).backgroundColor")
    opened(chat)
    choose(chat, "Theme", "light")
    expect(body).to_have_css("background-color", light)
    chat.page.reload()
    expect(body).to_have_css("background-color", light)
    opened(chat)
    choose(chat, "Theme", "auto")
    expect(body).to_have_css("background-color", dark)


def test_the_page_speaks_chinese_when_chosen_and_when_the_browser_does(chat: Chat) -> None:
    opened(chat)
    choose(chat, "Language", "zh")
    expect(chat.page.locator("#set-title")).to_have_text("设置")
    assert chat.page.get_attribute("html", "lang") == "zh-Hans"
    assert chat.page.context.browser is not None
    context = chat.page.context.browser.new_context(locale="zh-CN")
    other = Chat(context.new_page(), chat.url).open()
    expect(other.page.locator(".welcome h2")).to_contain_text("今天想做点什么")
    context.close()


def test_the_font_size_can_be_chosen(chat: Chat) -> None:
    size = "parseFloat(getComputedStyle(document.querySelector('.box textarea')).fontSize)"
    before = chat.page.evaluate(size)
    opened(chat)
    choose(chat, "Font size", "large")
    closed(chat)
    assert chat.page.evaluate(size) > before


def test_a_gateway_that_asks_for_a_key_is_told_from_one_that_is_down(chat: Chat) -> None:
    chat.expected = ("401", "503")
    answers = [(503, "no engine"), (401, "no key"), (200, "")]

    def answer(route: Route) -> None:
        status, message = answers[0]
        body = {"error": {"message": message}} if message else {"data": [{"id": "gpt-oss-20b"}]}
        route.fulfill(status=status, json=body)

    chat.page.route("**/v1/models", answer)
    chat.page.reload()
    expect(chat.page.locator(".banner")).to_have_text("The gateway cannot be reached: no engine")
    answers.pop(0)
    expect(chat.page.locator(".banner")).to_contain_text("asks for an API key")
    answers.pop(0)
    opened(chat)
    fill(chat, "API key", "sk-secret")
    closed(chat)
    expect(chat.page.locator(".banner")).to_have_count(0)
    chat.ask("hello")
