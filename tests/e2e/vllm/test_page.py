"""The chat page in a real browser, with real vLLM behind it."""

import time

import pytest

from tests.e2e.vllm.conftest import Engine, until_running
from tests.page.conftest import Chat, browser, context

pytestmark = pytest.mark.vllm
__all__ = ["browser", "context"]  # fixtures


@pytest.fixture
def page(context, gateway: str) -> Chat:  # type: ignore[no-untyped-def]
    """The page, open and empty."""
    return Chat(context.new_page(), gateway).open()


def test_a_conversation_works(page: Chat) -> None:
    page.page.set_default_timeout(120_000)  # it may talk until its context is full
    page.ask("What is the capital of France? Answer with one word.")
    assert page.written
    assert "lowlatency" in page.answer.inner_text()
    page.ask("And of Italy?")
    assert page.page.locator(".answer").count() == 2
    page.check()


def test_stop_keeps_what_was_written_and_frees_the_engine_within_a_second(
    page: Chat, engines: dict[str, Engine]
) -> None:
    """Case H71."""
    page.say("Tell me a very long story about the sea, with many chapters, and do not stop.")
    deadline = time.monotonic() + 20
    while not page.answer.locator(".markdown").count() or len(page.written) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    until_running(engines["lowlatency"], [1], 2)
    page.button("Stop").click()
    until_running(engines["lowlatency"], [0], 2)
    page.settled()
    assert len(page.written) > 20
