"""The chat: what comes, how it ends, and what a person can do meanwhile."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from playwright.sync_api import Route, expect

from tests.page.conftest import Chat
from tests.page.speaking_engine import (
    DONE,
    ERROR,
    Cut,
    Refuse,
    Send,
    SpeakingEngine,
    Stall,
    Wait,
    chunk,
    finish,
    paced,
    text,
    thoughts,
    usage,
    whole,
)

WORDS = [f"word{n} " for n in range(400)]


@contextmanager
def taken(url: str, engine: SpeakingEngine, requests: int) -> Iterator[None]:
    """The lane `narrow` with so many requests in it, for as long as the block lasts."""
    bodies = []
    for _ in range(requests):
        engine.plays(text("x"), Stall())
    for place in range(requests):
        body = json.dumps(
            {"model": "gpt-oss-20b", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        ).encode()
        headers = {"content-type": "application/json", "x-tokenlane-lane": "narrow"}
        request = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)
        if place == 0:
            bodies.append(urllib.request.urlopen(request))
        else:
            Thread(target=_abandoned, args=(request,), daemon=True).start()
    _until(lambda: _lane(url, "narrow")["running"] + _lane(url, "narrow")["waiting"] == requests)
    try:
        yield
    finally:
        for body in bodies:
            body.close()


def _abandoned(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request) as answer:
        answer.read(1)


def _lane(url: str, name: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/ui/status") as answer:
        lanes = json.loads(answer.read())["lanes"]
    found: dict[str, int] = next(lane for lane in lanes if lane["name"] == name)
    return found


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def test_an_answer_is_shown_while_it_comes_and_whole_at_the_end(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(text("First part."), Wait(1.5), text(" Second part."), finish(), usage(4), DONE)
    chat.say("hello")
    expect(chat.answer.locator(".markdown")).to_have_text("First part.")
    chat.settled()
    assert chat.written == "First part. Second part."
    assert engine.asked[-1].body["messages"] == [{"role": "user", "content": "hello"}]


def test_what_is_sent_before_the_models_are_known_goes_out_when_they_are(chat: Chat, engine: SpeakingEngine) -> None:
    held: list[Route] = []
    chat.page.route("**/v1/models", lambda route: held.append(route))  # noqa: PLW0108 - it has to be a function
    chat.page.reload()
    chat.say("quick")
    expect(chat.box).to_have_value("quick")
    assert not engine.asked
    held[0].continue_()
    chat.settled()
    assert engine.asked[-1].body["model"] == "gpt-oss-20b"
    expect(chat.box).to_have_value("")


def test_what_was_said_before_goes_along(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(text("one")))
    engine.plays(whole(text("two")))
    chat.ask("a")
    chat.ask("b")
    said = [(m["role"], m["content"]) for m in engine.asked[-1].body["messages"]]
    assert said == [("user", "a"), ("assistant", "one"), ("user", "b")]


def test_stop_closes_the_connection_to_the_engine_and_keeps_what_was_written(
    chat: Chat, engine: SpeakingEngine
) -> None:
    """Case H71: while the answer comes."""
    engine.plays(paced(text(*WORDS), 0.02))
    chat.say("go on")
    expect(chat.answer.locator(".markdown")).to_contain_text("word5")
    chat.button("Stop").click()
    chat.settled()
    assert engine.asked[-1].left.wait(1)
    assert chat.written.startswith("word0 word1")
    expect(chat.answer.locator(".remark")).to_have_text("Stopped. What was written is kept.")
    assert chat.stored()[-1]["state"] == "stopped"
    engine.plays(whole(text("next")))
    chat.ask("and now")
    assert chat.written == "next"
    assert engine.asked[-1].body["messages"][1]["content"].startswith("word0 word1")


def test_escape_stops_while_the_model_thinks(chat: Chat, engine: SpeakingEngine) -> None:
    """Case H71: while thinking."""
    engine.plays(paced(thoughts(*WORDS), 0.02))
    chat.say("think")
    expect(chat.answer.locator(".reasoning")).to_be_visible()
    chat.box.press("Escape")
    chat.settled()
    assert engine.asked[-1].left.wait(1)
    assert chat.stored()[-1]["reasoning"].startswith("word0")


def test_stop_while_the_request_waits_for_a_slot_gives_its_place_back(
    chat: Chat, gateway: str, engine: SpeakingEngine
) -> None:
    """Case H71: during the wait in the queue."""
    chat.choose_lane("narrow")
    with taken(gateway, engine, 1):
        chat.say("let me in")
        _until(lambda: _lane(gateway, "narrow")["waiting"] == 1)
        chat.button("Stop").click()
        chat.settled()
        _until(lambda: _lane(gateway, "narrow")["waiting"] == 0)
    expect(chat.answer.locator(".remark")).to_have_text("Stopped before the first token.")


def test_an_answer_can_be_asked_for_again(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(text("first try")))
    engine.plays(whole(text("second try")))
    chat.ask("please")
    chat.button("Answer again").click()
    expect(chat.answer.locator(".markdown")).to_have_text("second try")
    assert [m["content"] for m in engine.asked[-1].body["messages"]] == ["please"]


def test_a_message_can_be_edited_and_sent_again_and_what_came_after_it_goes(chat: Chat, engine: SpeakingEngine) -> None:
    for answer in ("one", "two", "three"):
        engine.plays(whole(text(answer)))
    chat.ask("first")
    chat.ask("second")
    chat.page.locator(".turn.user").first.hover()
    chat.button("Edit and send again").first.click()
    editor = chat.page.get_by_label("Edited message")
    editor.fill("changed")
    editor.press("Enter")
    expect(chat.answer.locator(".markdown")).to_have_text("three")
    assert [m["content"] for m in engine.asked[-1].body["messages"]] == ["changed"]
    expect(chat.page.locator(".turn")).to_have_count(2)


def test_escape_leaves_the_editor_and_changes_nothing(chat: Chat) -> None:
    chat.ask("first")
    chat.button("Edit and send again").first.click()
    editor = chat.page.get_by_label("Edited message")
    editor.fill("changed")
    editor.press("Escape")
    expect(chat.page.locator(".said")).to_have_text("first")


def test_an_answer_and_its_code_can_be_copied(chat: Chat, engine: SpeakingEngine) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    engine.plays(whole(text("Look:\n\n```python\nprint(1 < 2)\n```\n")))
    chat.ask("code")
    chat.answer.locator(".copy-code").click()
    expect(chat.answer.locator(".copy-code")).to_have_text("Copied")
    assert chat.page.evaluate("navigator.clipboard.readText()") == "print(1 < 2)"
    chat.answer.get_by_role("button", name="Copy", exact=True).last.click()
    expect(chat.button("Copied").last).to_be_visible()
    assert chat.page.evaluate("navigator.clipboard.readText()").startswith("Look:\n\n```python")


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_folded_away_with_the_time_it_took(chat: Chat, engine: SpeakingEngine, name: str) -> None:
    engine.plays(
        thoughts("Let me ", name=name), Wait(1.2), thoughts("see.", name=name), whole(text("The answer.")), Wait(0)
    )
    chat.say("think")
    expect(chat.answer.locator("summary")).to_have_text(re.compile(r"Thinking for \d s"))
    chat.settled()
    summary = chat.answer.locator("summary").inner_text()
    assert summary.startswith(("Thought for 1.", "Thought for 2."))
    expect(chat.answer.locator(".thoughts")).to_have_count(0)
    chat.answer.locator("summary").click()
    expect(chat.answer.locator(".thoughts")).to_have_text("Let me see.")
    assert chat.written == "The answer."


def test_reasoning_that_meets_the_token_limit_says_so_instead_of_showing_nothing(
    chat: Chat, engine: SpeakingEngine
) -> None:
    """Case H32."""
    engine.plays(thoughts("hm ", "hm "), finish("length"), usage(2), DONE)
    chat.ask("think")
    expect(chat.answer.locator(".remark")).to_contain_text("Stopped at the token limit while thinking")


def test_an_answer_that_meets_the_token_limit_says_so(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(text("half of"), finish("length"), usage(2), DONE)
    chat.ask("write")
    expect(chat.answer.locator(".remark")).to_have_text("Stopped at the token limit.")


def test_a_finish_without_text_is_said(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(chunk({"role": "assistant", "content": ""}), finish(), usage(1), DONE)
    chat.ask("nothing")
    expect(chat.answer.locator(".remark")).to_have_text("The engine finished without a text.")


def test_tool_calls_are_shown_with_their_arguments(chat: Chat, engine: SpeakingEngine) -> None:
    def call(index: int, **function: str) -> Send:
        return chunk({"tool_calls": [{"index": index, "id": f"call-{index}", "function": function}]})

    engine.plays(
        call(0, name="get_weather", arguments=""),
        call(0, arguments='{"city": '),
        call(0, arguments='"Paris"}'),
        call(1, name="get_time", arguments="{}"),
        finish("tool_calls"),
        usage(9),
        DONE,
    )
    chat.ask("weather?")
    calls = chat.answer.locator(".tool")
    expect(calls).to_have_count(2)
    expect(calls.first.locator("summary")).to_have_text("Tool call get_weather")
    assert json.loads(calls.first.locator("pre").inner_text()) == {"city": "Paris"}


def test_code_is_highlighted_and_tables_are_tables(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(text("```python\ndef f():\n    return 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2<br>3 |\n")))
    chat.ask("show")
    expect(chat.answer.locator(".hljs-keyword").first).to_have_text("def")
    expect(chat.answer.locator("figcaption")).to_contain_text("python")
    assert chat.answer.locator("td").nth(1).evaluate("td => getComputedStyle(td).textAlign") == "right"
    expect(chat.answer.locator("td br")).to_have_count(1)


def test_an_error_in_the_stream_shows_what_came_and_why_and_offers_another_try(
    chat: Chat, engine: SpeakingEngine
) -> None:
    engine.plays(text("It begins"), Wait(0.1), ERROR, DONE)
    engine.plays(whole(text("It ends well.")))
    chat.ask("go")
    assert chat.written == "It begins"
    expect(chat.answer.locator(".notice.error")).to_contain_text("The engine is out of memory.")
    chat.button("Try again").click()
    expect(chat.answer.locator(".markdown")).to_have_text("It ends well.")
    expect(chat.answer.locator(".notice")).to_have_count(0)


def test_a_stream_that_the_engine_cuts_is_not_taken_for_an_answer(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(text("It begins"), Wait(0.2), Cut())
    chat.ask("go")
    assert chat.written == "It begins"
    expect(chat.answer.locator(".notice.error")).to_be_visible()
    assert chat.stored()[-1]["state"] == "failed"


def test_an_error_before_the_stream_is_shown_in_the_engines_words(chat: Chat, engine: SpeakingEngine) -> None:
    chat.expected = ("400",)
    engine.plays(Refuse(400, "max_tokens must be at least 1, got 0."))
    chat.ask("go")
    expect(chat.answer.locator(".notice.error")).to_contain_text("max_tokens must be at least 1, got 0.")


def test_a_full_lane_shows_the_wait_and_the_page_tries_again_by_itself(
    chat: Chat, gateway: str, engine: SpeakingEngine
) -> None:
    chat.expected = ("429",)
    chat.choose_lane("narrow")
    with taken(gateway, engine, 2):
        chat.say("let me in")
        expect(chat.answer.locator(".notice")).to_contain_text("Trying again in")
        assert not engine.asked[1:]
        engine.forget()
    chat.settled()
    assert chat.written == "Fine."


def test_a_wait_for_a_slot_can_be_cut_short(chat: Chat, engine: SpeakingEngine) -> None:
    chat.expected = ("429",)
    engine.plays(Refuse(429, "Too many requests.", ("retry-after: 600",)))
    engine.plays(whole(text("Welcome.")))
    chat.say("let me in")
    expect(chat.answer.locator(".notice")).to_contain_text("Too many requests. Trying again in 600 s.")
    chat.button("Try now").click()
    expect(chat.answer.locator(".markdown")).to_have_text("Welcome.")


def test_a_wait_for_a_slot_can_be_stopped(chat: Chat, engine: SpeakingEngine) -> None:
    chat.expected = ("429",)
    engine.plays(Refuse(429, "Too many requests.", ("retry-after: 600",)))
    chat.say("let me in")
    expect(chat.answer.locator(".notice")).to_be_visible()
    chat.button("Stop").click()
    chat.settled()
    assert len(engine.asked) == 1


def test_a_connection_that_drops_is_said_and_what_came_stays(chat: Chat, engine: SpeakingEngine) -> None:
    chat.expected = ("ERR_INTERNET_DISCONNECTED", "Failed to load")
    chat.page.context.set_offline(True)
    expect(chat.page.locator(".banner")).to_contain_text("You are offline")
    chat.ask("anybody?")
    expect(chat.answer.locator(".notice.error")).to_contain_text("you are offline")
    chat.page.context.set_offline(False)
    chat.button("Try again").click()
    expect(chat.answer.locator(".markdown")).to_have_text("Fine.")
    assert engine.asked


def test_a_reload_in_mid_stream_keeps_what_had_come(chat: Chat, engine: SpeakingEngine) -> None:
    """Case H71: reload."""
    engine.plays(paced(text(*WORDS), 0.02))
    chat.say("go on")
    expect(chat.answer.locator(".markdown")).to_contain_text("word60")
    chat.page.reload()
    expect(chat.answer.locator(".markdown")).to_contain_text("word0 word1")
    expect(chat.answer.locator(".remark")).to_contain_text("The page was closed")
    assert "word20" in chat.written
    assert engine.asked[-1].left.wait(2)
    chat.button("Answer again").click()
    expect(chat.answer.locator(".markdown")).to_have_text("Fine.")


def test_another_tab_shows_that_an_answer_is_being_written_and_has_it_in_the_end(
    chat: Chat, engine: SpeakingEngine
) -> None:
    """Case H71: two tabs."""
    engine.plays(paced(text(*WORDS[:120]), 0.02), finish(), usage(120), DONE)
    chat.say("go on")
    expect(chat.answer.locator(".markdown")).to_contain_text("word40")
    other = Chat(chat.page.context.new_page(), chat.url)
    other.open("/" + chat.page.evaluate("location.hash"))
    expect(other.answer.locator(".remark")).to_contain_text("another tab")
    chat.settled()
    expect(other.answer.locator(".markdown")).to_contain_text("word119")
    assert other.stored()[-1]["state"] == "done"
    other.check()


def test_under_an_answer_stands_the_way_it_came(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(paced(text(*WORDS[:20]), 0.02), finish(), usage(20), DONE)
    chat.ask("numbers")
    rows = dict(
        zip(chat.answer.locator("dt").all_inner_texts(), chat.answer.locator("dd").all_inner_texts(), strict=True)
    )
    assert rows["Lane"] == "lowlatency"
    assert rows["Engine"] == "engine-0"
    assert rows["Tokens"] == "20"
    assert rows["Queue"].endswith("ms")
    assert rows["Gateway"].endswith("ms")
    assert rows["TTFT"].endswith(("ms", "s"))
    assert 5 < float(rows["Speed"].split()[0]) < 100
    assert engine.asked[-1].headers["x-request-id"] in str(chat.answer.locator(".meta").get_attribute("title"))


def test_a_stream_goes_on_while_another_conversation_is_shown(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(paced(text(*WORDS[:60]), 0.02), finish(), usage(60), DONE)
    chat.say("the long one")
    expect(chat.answer.locator(".markdown")).to_contain_text("word3")
    chat.button("New chat").click()
    chat.ask("the short one")
    assert chat.written == "Fine."
    chat.page.get_by_role("link", name="the long one").click()
    expect(chat.page.locator(".said")).to_have_text("the long one")
    chat.settled()
    assert "word59" in chat.written
