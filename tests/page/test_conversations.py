"""Conversations: kept in the browser, and nowhere else."""

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.page.conftest import Chat
from tests.page.speaking_engine import SpeakingEngine, paced, text, whole


def three(chat: Chat) -> None:
    for words in ("apples", "pears", "plums"):
        chat.button("New chat").click()
        chat.ask(words)


SLOW = """
  const { set } = Object.getOwnPropertyDescriptor(IDBTransaction.prototype, "oncomplete");
  let slow = COUNT;
  Object.defineProperty(IDBTransaction.prototype, "oncomplete", {
    set(done) { set.call(this, () => setTimeout(done, slow-- > 0 ? 700 : 0)); },
  });
"""
"""Makes the next COUNT transactions of IndexedDB take their time."""


def test_a_conversation_is_there_after_a_reload_under_its_first_words(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(text("the answer")))
    chat.ask("What is it?\nTell me.")
    chat.page.reload()
    expect(chat.page.locator(".list .name")).to_have_text(["What is it?"])
    expect(chat.answer.locator(".markdown")).to_have_text("the answer")
    expect(chat.page.locator(".said")).to_have_text("What is it?\nTell me.")


def test_the_list_has_the_latest_first_and_opens_what_is_chosen(chat: Chat) -> None:
    three(chat)
    expect(chat.page.locator(".list .name")).to_have_text(["plums", "pears", "apples"])
    chat.page.get_by_role("link", name="apples").click()
    expect(chat.page.locator(".said")).to_have_text("apples")
    expect(chat.page.locator(".list [aria-current=page]")).to_contain_text("apples")


def test_an_address_that_comes_while_the_page_starts_is_followed(chat: Chat, engine: SpeakingEngine) -> None:
    engine.plays(whole(text("kept")))
    chat.ask("apples")
    address = chat.page.evaluate("location.hash")
    chat.button("New chat").click()
    chat.page.add_init_script(SLOW.replace("COUNT", "1"))
    chat.page.reload()
    chat.page.evaluate("(address) => { location.hash = address; }", address)
    expect(chat.answer.locator(".markdown")).to_have_text("kept")


def test_of_two_choices_the_last_is_shown_although_the_first_takes_longer_to_read(chat: Chat) -> None:
    three(chat)
    chat.page.evaluate(SLOW.replace("COUNT", "1"))
    chat.page.get_by_role("link", name="apples").click()
    chat.page.get_by_role("link", name="pears").click()
    expect(chat.page.locator(".said")).to_have_text("pears")
    chat.page.wait_for_timeout(1000)
    expect(chat.page.locator(".said")).to_have_text("pears")


def test_a_conversation_can_be_renamed_and_keeps_its_name(chat: Chat) -> None:
    chat.ask("hello")
    chat.page.locator(".list li").hover()
    chat.button("Rename “hello”").click()
    field = chat.page.get_by_label("Title")
    field.fill("My plan")
    field.press("Enter")
    expect(chat.page.locator(".list .name")).to_have_text("My plan")
    chat.ask("more")
    chat.page.reload()
    expect(chat.page.locator(".list .name")).to_have_text("My plan")


def test_escape_leaves_a_name_as_it_was(chat: Chat) -> None:
    chat.ask("hello")
    chat.page.locator(".list li").hover()
    chat.button("Rename “hello”").click()
    chat.page.get_by_label("Title").fill("other")
    chat.page.get_by_label("Title").press("Escape")
    expect(chat.page.locator(".list .name")).to_have_text("hello")


def test_a_deleted_conversation_is_gone_and_can_be_taken_back(chat: Chat) -> None:
    three(chat)
    chat.page.locator(".list li").nth(1).hover()
    chat.button("Delete “pears”").click()
    expect(chat.page.locator(".list .name")).to_have_text(["plums", "apples"])
    chat.button("Undo").click()
    expect(chat.page.locator(".list .name")).to_have_text(["plums", "pears", "apples"])
    chat.page.locator(".list li").nth(1).hover()
    chat.button("Delete “pears”").click()
    expect(chat.page.locator(".list .name")).to_have_count(2)
    chat.page.reload()
    expect(chat.page.locator(".list .name")).to_have_text(["plums", "apples"])


def test_a_conversation_that_is_deleted_while_its_answer_comes_stays_deleted(
    chat: Chat, engine: SpeakingEngine
) -> None:
    engine.plays(paced(text(*[f"word{n} " for n in range(400)]), 0.02))
    chat.say("hello")
    expect(chat.answer.locator(".markdown")).to_contain_text("word5")
    chat.page.locator(".list li").hover()
    chat.button("Delete “hello”").click()
    assert engine.asked[-1].left.wait(1)
    chat.page.wait_for_timeout(600)
    chat.page.reload()
    expect(chat.page.locator(".list-empty")).to_be_visible()


def test_search_finds_titles_and_what_was_said(chat: Chat, engine: SpeakingEngine) -> None:
    for answer in ("red", "GREEN as grass", "blue"):
        engine.plays(whole(text(answer)))
    three(chat)
    search = chat.page.get_by_role("searchbox")
    search.fill("plum")
    expect(chat.page.locator(".list .name")).to_have_text(["plums"])
    search.fill("green")
    expect(chat.page.locator(".list .name")).to_have_text(["pears"])
    search.fill("nothing at all")
    expect(chat.page.locator(".list-empty")).to_have_text("Nothing found")
    search.fill("")
    expect(chat.page.locator(".list .name")).to_have_count(3)


def test_all_conversations_go_out_as_json_and_come_back(chat: Chat, tmp_path: Path) -> None:
    three(chat)
    chat.button("Settings").click()
    with chat.page.expect_download() as download:
        chat.button("Export as JSON").click()
    file = tmp_path / "export.json"
    download.value.save_as(file)
    out = json.loads(file.read_text())
    assert [each["title"] for each in out["conversations"]] == ["plums", "pears", "apples"]
    assert [m["role"] for m in out["conversations"][0]["messages"]] == ["user", "assistant"]
    chat.button("Delete all").click()
    chat.button("Really delete all?").click()
    expect(chat.page.locator(".list .name")).to_have_count(0)
    chat.page.locator("input[type=file]").set_input_files(file)
    expect(chat.page.locator(".list .name")).to_have_text(["plums", "pears", "apples"])
    expect(chat.page.locator(".toast")).to_have_text("Conversations imported: 3")


def test_a_file_that_is_no_export_changes_nothing(chat: Chat, tmp_path: Path) -> None:
    chat.ask("hello")
    chat.button("Settings").click()
    bad = {"format": "tokenlane.conversations", "conversations": [{"id": "x", "messages": [{"role": "system"}]}]}
    for content in ("no json", "[]", json.dumps(bad)):
        file = tmp_path / "bad.json"
        file.write_text(content)
        chat.page.locator("input[type=file]").set_input_files(file)
        expect(chat.page.locator(".toast")).to_have_text("This file is not an export of this page.")
    expect(chat.page.locator(".list .name")).to_have_text(["hello"])


def test_an_import_with_strange_values_is_shown_all_the_same(chat: Chat, tmp_path: Path) -> None:
    strange = [
        {"role": "user", "content": 7},
        {"role": "assistant", "state": "failed", "problem": None, "content": "a"},
        {"role": "assistant", "state": "failed", "problem": {"kind": "unheard of"}, "content": "b", "meta": "x"},
        {"role": "assistant", "state": "busy", "content": "c", "meta": {"queue": "x", "ttft": {}}, "toolCalls": [None]},
        {"role": "assistant", "state": "done", "finish": {}, "reasoning": [], "content": "d"},
    ]
    document = {
        "format": "tokenlane.conversations",
        "conversations": [{"id": "s", "title": "strange", "messages": strange}],
    }
    file = tmp_path / "strange.json"
    file.write_text(json.dumps(document))
    chat.button("Settings").click()
    chat.page.locator("input[type=file]").set_input_files(file)
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("link", name="strange").click()
    expect(chat.page.locator(".turn")).to_have_count(5)
    expect(chat.page.locator(".markdown")).to_have_text(["a", "b", "c", "d"])


def test_without_storage_the_page_works_and_says_so(chat: Chat) -> None:
    chat.page.add_init_script("Object.defineProperty(window, 'indexedDB', { get() { throw new Error('off'); } })")
    chat.page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('off'); } })")
    chat.page.reload()
    expect(chat.page.locator(".banner")).to_contain_text("does not let the page store")
    chat.ask("hello")
    assert chat.written == "Fine."
