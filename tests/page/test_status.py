"""The status view: the lanes as they are now."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.page.conftest import Chat
from tests.page.speaking_engine import SpeakingEngine, Stall, paced, text, whole


@pytest.fixture
def status(context: BrowserContext, gateway: str, engine: SpeakingEngine) -> Iterator[Chat]:
    chat = Chat(context.new_page(), gateway)
    yield chat
    chat.check()


def test_every_lane_shows_its_slots_its_queue_and_its_engines(status: Chat) -> None:
    status.open("/#/status")
    expect(status.page.locator(".live")).to_have_text("Live")
    expect(status.page.locator(".lane h2")).to_have_text(["lowlatency", "batch", "narrow"])
    narrow = status.page.get_by_role("region", name="narrow", exact=True)
    expect(narrow.locator(".figure").nth(0)).to_contain_text("0 of 1")
    expect(narrow.locator(".figure").nth(1)).to_contain_text("0 of 1")
    expect(narrow.locator(".engines tbody tr")).to_contain_text(["speaker-1"])
    expect(narrow.locator(".state")).to_have_text("well")


def test_what_runs_is_seen_within_a_second_or_two_without_a_reload(status: Chat, engine: SpeakingEngine) -> None:
    status.open()
    engine.plays(text("x"), Stall())
    status.choose_lane("narrow")
    status.say("hold the slot")
    expect(status.answer.locator(".markdown")).to_have_text("x")
    status.page.get_by_role("link", name="Status").click()
    narrow = status.page.get_by_role("region", name="narrow", exact=True)
    expect(narrow.locator(".figure").nth(0)).to_contain_text("1 of 1")
    status.page.get_by_role("link", name="Back to the chat").click()
    status.button("Stop").click()
    status.page.get_by_role("link", name="Status").click()
    expect(narrow.locator(".figure").nth(0)).to_contain_text("0 of 1")


def test_percentiles_flushes_and_plots_follow_the_answers(status: Chat, engine: SpeakingEngine) -> None:
    status.open()
    for _ in range(2):
        engine.plays(whole(paced(text(*["word "] * 40), 0.004), tokens=40))
        status.ask("go")
    status.page.get_by_role("link", name="Status").click()
    quick = status.page.get_by_role("region", name="lowlatency", exact=True)
    for plot in quick.locator(".plot").all():
        expect(plot.locator(".now")).to_contain_text("p99")
        expect(plot.locator("canvas")).to_be_visible()
    expect(quick.locator(".flushes li").first).to_be_visible()
    assert "first token" in quick.locator(".flushes").inner_text()
    expect(quick.locator(".flushes .now")).to_contain_text("tokens a flush")


def test_the_view_comes_back_when_the_connection_was_lost(status: Chat) -> None:
    status.expected = ("ERR_", "Failed to load")
    status.open("/#/status")
    expect(status.page.locator(".live")).to_have_text("Live")
    status.page.get_by_role("link", name="Back to the chat").click()
    status.page.context.set_offline(True)
    status.page.get_by_role("link", name="Status").click()
    expect(status.page.locator(".live")).to_have_text("Connection lost. Trying again.")
    status.page.context.set_offline(False)
    expect(status.page.locator(".live")).to_have_text("Live")


def test_the_view_is_fetched_as_soon_as_there_is_a_connection(status: Chat) -> None:
    status.expected = ("ERR_", "Failed to load")
    status.open()
    status.page.context.set_offline(True)
    status.page.get_by_role("link", name="Status").click()
    expect(status.page.locator(".banner")).to_contain_text("You are offline")
    status.page.context.set_offline(False)
    expect(status.page.locator(".live")).to_have_text("Live")
