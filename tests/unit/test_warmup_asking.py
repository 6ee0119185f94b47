"""One stream of a burst: when its first token came, and what is no answer."""

import asyncio

import pytest

from gateway.errors import EngineAnswered, EngineBroke, EngineError, EngineTruncated
from gateway.warmup.asking import FirstToken

TOKEN = b'data: {"choices":[{"index":0,"text":"","token_ids":[5]}]}\n\n'
DONE = b"data: [DONE]\n\n"


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def first_of(*pieces: bytes, error: EngineError | None = None) -> float:
    """The moment of the first token; each piece comes a second after the one before."""
    time = Time()
    stream = FirstToken(time)
    for piece in pieces:
        time.now += 1
        stream.received(piece)
    stream.ended(error)
    return await stream.first


async def test_a_token_without_text_is_a_token() -> None:
    assert await first_of(b": ping\n\n", TOKEN, TOKEN, DONE) == 2


async def test_usage_alone_is_none() -> None:
    assert await first_of(b'data: {"choices":[],"usage":{}}\n\n', TOKEN + DONE) == 2


@pytest.mark.parametrize("pieces", [(TOKEN,), (DONE,), ()])
async def test_a_stream_that_is_not_whole_is_a_failure(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(EngineTruncated):
        await first_of(*pieces)


async def test_an_error_event_is_a_failure_with_its_status() -> None:
    with pytest.raises(EngineAnswered) as raised:
        await first_of(TOKEN, b'data: {"error": {"message": "no", "type": "BadRequestError", "code": 400}}\n\n', DONE)
    assert raised.value.status == 400


async def test_what_is_not_json_is_a_failure() -> None:
    with pytest.raises(EngineBroke):
        await first_of(b"data: nonsense\n\n", TOKEN, DONE)


async def test_what_ended_the_stream_is_what_is_raised() -> None:
    with pytest.raises(EngineBroke, match="reset"):
        await first_of(TOKEN, error=EngineBroke("reset"))


async def test_nobody_has_to_wait_for_the_end() -> None:
    stream = FirstToken(Time())
    stream.first.cancel()
    stream.received(b"data: nonsense\n\n")
    stream.ended(None)
    await asyncio.sleep(0)
    assert stream.first.cancelled()
