"""`gateway/upstream/failures.py`: every exception of httpx has a meaning here."""

import httpx
import pytest

from gateway.errors import EngineBroke, EngineError, EngineStale, EngineUnreachable
from gateway.upstream.failures import BrokenAnswer, StaleConnection, engine_error

SECRET = "10.0.0.1:8000 refused key-123"


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        (StaleConnection(SECRET), EngineStale),
        (httpx.ConnectError(SECRET), EngineUnreachable),
        (httpx.ConnectTimeout(SECRET), EngineUnreachable),
        (httpx.UnsupportedProtocol(SECRET), EngineUnreachable),
        (httpx.InvalidURL(SECRET), EngineUnreachable),
        (httpx.ReadError(SECRET), EngineBroke),
        (httpx.WriteError(SECRET), EngineBroke),
        (httpx.RemoteProtocolError(SECRET), EngineBroke),
        (httpx.PoolTimeout(SECRET), EngineBroke),
    ],
)
def test_each_becomes_ours_keeps_its_cause_and_tells_no_secret(
    foreign: httpx.HTTPError | httpx.InvalidURL, ours: type[EngineError]
) -> None:
    error = engine_error(foreign)
    assert type(error) is ours
    assert error.__cause__ is foreign
    assert SECRET not in str(error)


def test_our_own_word_of_a_broken_answer_is_kept() -> None:
    assert str(engine_error(BrokenAnswer("the head is too large"))) == "the head is too large"
