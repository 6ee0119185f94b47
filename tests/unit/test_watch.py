"""Which deadline counts for a stream, and what is said when it is over."""

import pytest

from gateway.buffer import TokenBuffer
from gateway.errors import ClientTooSlow, EngineSilent, EngineStalled
from gateway.watch import AFTER_END, Deadlines, Watch

LIMITS = Deadlines(first_token=300.0, gap=60.0, write=30.0)
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
ERROR = b'data: {"error":{"message":"no","code":500}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.fixture
def watch() -> Watch:
    return Watch(LIMITS, 100.0)


def after(*pieces: bytes) -> TokenBuffer:
    buffer = TokenBuffer()
    for piece in pieces:
        buffer.feed(piece, 0.0)
    return buffer


def test_an_engine_that_has_said_nothing_has_its_time_from_when_it_was_asked(watch: Watch) -> None:
    ends, error = watch.ends(after(b": ping\n\n"))
    assert ends == 400.0
    assert isinstance(error, EngineSilent)


def test_an_engine_that_speaks_has_its_time_from_its_last_event(watch: Watch) -> None:
    watch.last_event = 500.0
    ends, error = watch.ends(after(TOKEN))
    assert ends == 560.0
    assert isinstance(error, EngineStalled)


@pytest.mark.parametrize("word", [DONE, ERROR], ids=["done", "error"])
def test_after_the_last_word_the_end_is_not_waited_for_and_nobody_is_blamed(watch: Watch, word: bytes) -> None:
    watch.last_event = 500.0
    assert watch.ends(after(TOKEN, word)) == (500.0 + AFTER_END, None)


def test_while_the_client_does_not_read_the_engine_is_not_blamed(watch: Watch) -> None:
    """Case H57."""
    watch.wrote(1000.0, 5000)
    ends, error = watch.ends(after(TOKEN))
    assert ends == 1030.0
    assert isinstance(error, ClientTooSlow)
    watch.writing_since = None
    assert isinstance(watch.ends(after(TOKEN))[1], EngineStalled)


def test_a_client_that_takes_a_little_has_its_time_again_and_one_that_takes_nothing_has_not(watch: Watch) -> None:
    """Case H57."""
    buffer = after(TOKEN)
    watch.wrote(1000.0, 5000)
    watch.look(1010.0, 5000)
    assert watch.ends(buffer)[0] == 1030.0
    watch.look(1020.0, 4999)
    assert watch.ends(buffer)[0] == 1050.0
    watch.look(1030.0, 4999)
    assert watch.ends(buffer)[0] == 1050.0


def test_a_client_that_stops_reading_at_any_time_is_found_by_the_next_look_but_one(watch: Watch) -> None:
    assert watch.next_look(after(), 100.0) == 130.0
    assert watch.next_look(after(), 390.0) == 400.0
