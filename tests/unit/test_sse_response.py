"""The writer of a stream, against a client that is played by hand: when it opens, when it pings, how it ends."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from app.sse import EventWriter, Pace

PING = b": ping\n\n"
LONG = 60.0


class PlayedClient:
    """ASGI's `send`: it keeps what is written, and takes nothing while `reads` is clear."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.news = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        await self.reads.wait()
        self.messages.append(message)
        self.news.set()

    @property
    def kinds(self) -> list[str]:
        return [message["type"].rpartition(".")[2] for message in self.messages]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    async def has(self, count: int) -> None:
        """Waits until so many messages came."""
        async with asyncio.timeout(10):
            while len(self.messages) < count:
                self.news.clear()
                await self.news.wait()


def start() -> dict[str, object]:
    return {"type": "http.response.start", "status": 200, "headers": []}


def writer_to(client: PlayedClient, pace: Pace) -> EventWriter:
    return EventWriter(client, client, pace, start)


async def written(writer: EventWriter, data: bytes) -> None:
    if (rest := writer.write(data)) is not None:
        await rest


async def test_nothing_is_written_before_the_first_event() -> None:
    client = PlayedClient()
    with writer_to(client, Pace(LONG, LONG)) as writer:
        assert not client.messages
        await written(writer, b"data: a\n\n")
        assert client.kinds == ["start", "body"]


async def test_a_stream_without_an_event_is_opened_after_a_while_and_pinged_from_then_on() -> None:
    """Case H37: in the queue and in prefill."""
    client = PlayedClient()
    with writer_to(client, Pace(0.02, 0.02)):
        await client.has(4)
    assert client.kinds[0] == "start"
    assert set(client.body.split(b"\n\n")) == {b": ping", b""}


async def test_a_stream_is_pinged_between_two_events() -> None:
    """Case H37: in a gap."""
    client = PlayedClient()
    with writer_to(client, Pace(0.02, 0.02)) as writer:
        await written(writer, b"data: a\n\n")
        await client.has(4)
    assert client.body == b"data: a\n\n" + PING * 2


async def test_the_gap_after_an_event_is_pinged_also_where_the_stream_was_opened_late() -> None:
    client = PlayedClient()
    with writer_to(client, Pace(0.01, 0.02)) as writer:
        await client.has(2)
        await written(writer, b"data: a\n\n")
        count = len(client.messages)
        await client.has(count + 2)
    assert client.body.rpartition(b"data: a\n\n")[2].startswith(PING)


async def test_without_pings_a_stream_is_opened_all_the_same_and_nothing_but_events_is_written() -> None:
    """Case H27: pings can be off, for readers that do not bear comments."""
    client = PlayedClient()
    with writer_to(client, Pace(0.01, 0)) as writer:
        await client.has(1)
        await asyncio.sleep(0.05)
        await written(writer, b"data: a\n\n")
        await writer.end()
    assert client.kinds[0] == "start"
    assert client.body == b"data: a\n\n"


async def test_no_ping_is_written_while_the_client_does_not_read() -> None:
    client = PlayedClient()
    with writer_to(client, Pace(0.01, 0.01)) as writer:
        await written(writer, b"data: a\n\n")
        client.reads.clear()
        writing = asyncio.create_task(written(writer, b"data: b\n\n"))
        await asyncio.sleep(0.1)
        client.reads.set()
        await writing
        assert client.body.count(PING) <= 1
        assert client.body.endswith(b"data: b\n\n")


async def test_waiting_for_a_client_that_does_not_read_costs_no_time_of_the_processor() -> None:
    """Case H50: a timer that rings again at once would keep a core busy for as long as the client pleases."""
    client = PlayedClient()
    with writer_to(client, Pace(0.01, 0.01)) as writer:
        await written(writer, b"data: a\n\n")
        client.reads.clear()
        writing = asyncio.create_task(written(writer, b"data: b\n\n"))
        before = time.process_time()
        await asyncio.sleep(0.3)
        assert time.process_time() - before < 0.15
        client.reads.set()
        await writing


async def test_what_is_written_behind_a_ping_that_was_not_taken_comes_after_it() -> None:
    client = PlayedClient()
    client.reads.clear()
    with writer_to(client, Pace(0.01, 0.01)) as writer:
        await asyncio.sleep(0.05)
        writing = asyncio.create_task(written(writer, b"data: a\n\n"))
        await asyncio.sleep(0.02)
        client.reads.set()
        await writing
        assert client.kinds[0] == "start"
        assert client.body.startswith(PING + b"data: a\n\n")


async def test_a_client_that_takes_no_ping_is_not_pinged_again() -> None:
    client = PlayedClient()
    client.reads.clear()
    with writer_to(client, Pace(0.01, 0.01)):
        before = len(asyncio.all_tasks())
        await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) <= before + 1
    assert len(asyncio.all_tasks()) == 1


async def test_the_end_comes_once_whoever_calls_for_it() -> None:
    client = PlayedClient()
    with writer_to(client, Pace(LONG, LONG)) as writer:
        await written(writer, b"data: a\n\n")
        await writer.end()
        await writer.end(b"data: late\n\n")
    assert client.kinds == ["start", "body", "body"]
    assert b"late" not in client.body


async def test_the_last_event_ends_the_response() -> None:
    client = PlayedClient()
    with writer_to(client, Pace(LONG, LONG)) as writer:
        await written(writer, b"data: a\n\n")
        await writer.end(b"data: error\n\n")
    assert client.messages[-1] == {"type": "http.response.body", "body": b"data: error\n\n", "more_body": False}


async def test_a_response_that_was_not_opened_has_no_end() -> None:
    client = PlayedClient()
    with writer_to(client, Pace(LONG, LONG)) as writer:
        await writer.end()
    assert not client.messages


@pytest.mark.parametrize("fails", [False, True])
async def test_no_timer_and_no_task_is_left(fails: bool) -> None:
    client = PlayedClient()
    with suppress(ValueError), writer_to(client, Pace(0.01, 0.01)):
        await client.has(2)
        client.reads.clear()
        await asyncio.sleep(0.03)
        if fails:
            raise ValueError
    count = len(client.messages)
    client.reads.set()
    await asyncio.sleep(0.05)
    assert len(client.messages) == count
    assert len(asyncio.all_tasks()) == 1
