"""The relay between an engine that is played by hand and a writer that takes when it is told to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.buffer import TokenBuffer, Window
from gateway.buffer.coalesce import STRATEGIES
from gateway.errors import (
    ClientTooSlow,
    Draining,
    EngineBroke,
    EngineSilent,
    EngineStalled,
    EngineTruncated,
    GatewayError,
)
from gateway.relay import Deadlines, Relay
from gateway.ticker import Ticker

SHORT = 0.03
LONG = 60.0


def text(content: str, finish: str = "null") -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % (
        content.encode(),
        finish.encode(),
    )


DONE = b"data: [DONE]\n\n"
FINISH = text("", '"stop"')


class PlayedEngine:
    """The engine's answer, by hand: it hands over nothing at first, and counts what it is told."""

    def __init__(self, held: bytes = b"") -> None:
        self.paused = False
        self.closed = self.left = self.looks = 0
        self.rest = 0.0
        self._held = held

    def attach(self, sink: Relay) -> None:
        if self._held:
            sink.received(self._held)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def leave(self, size: int, rest: float = 0.0) -> None:
        self.left, self.rest = size, rest

    def look(self) -> None:
        self.looks += 1

    def close(self) -> None:
        self.closed += 1


class Stage:
    """One relay and what happened to it."""

    def __init__(
        self,
        held: bytes = b"",
        *,
        strategy: str = "window",
        window: Window = Window(4, LONG),  # noqa: B008 - it is frozen
        high_water: int = 2**20,
        **limits: float,
    ) -> None:
        self.engine = PlayedEngine(held)
        self.cuts: list[GatewayError] = []
        self.buffer = TokenBuffer(strategy=strategy, window=window, high_water=high_water)
        deadlines = Deadlines(**{"first_token": LONG, "gap": LONG, "write": LONG} | limits)
        now = asyncio.get_running_loop().time()
        self.ticker = Ticker(asyncio.get_running_loop())
        self.relay = Relay(
            self.buffer,
            self.engine,  # type: ignore[arg-type]
            ticker=self.ticker,
            deadlines=deadlines,
            asked_at=now,
            cut=self.cuts.append,
        )
        self.unsent = 100
        self._flushes: list[bytes] = []
        self._taken: asyncio.Future[None] | None = None
        self._news = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    def write(self, data: bytes) -> Awaitable[None]:
        """A client's socket that is full until the next flush is asked for."""
        self._flushes.append(data)
        self._taken = asyncio.get_running_loop().create_future()
        self._news.set()
        return self._taken

    async def next_flush(self) -> bytes:
        """Reads what was written, then the next flush; empty at the end."""
        if self._pump is None:
            self._pump = asyncio.create_task(self.relay.pump(self.write, lambda: self.unsent))
            self._pump.add_done_callback(lambda _: self._news.set())
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        while not self._flushes:
            if self._pump.done():
                self._pump.result()
                return b""
            self._news.clear()
            await self._news.wait()
        return self._flushes.pop(0)

    async def rest(self) -> bytes:
        """Everything until the end, by a reader that is quick."""
        taken = b""
        while flush := await self.next_flush():
            taken += flush
        return taken


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to pass")


async def test_what_an_engine_sends_leaves_in_order_until_its_end() -> None:
    stage = Stage()
    stage.relay.received(text("a"))
    await stage.relay.opened()
    assert await stage.next_flush() == text("a")
    stage.relay.received(text("b") + FINISH + DONE)
    stage.relay.ended(None)
    assert (await stage.rest()).endswith(DONE)
    assert stage.buffer.failure is None


async def test_what_was_received_before_somebody_listened_is_not_lost() -> None:
    stage = Stage(held=text("a") + FINISH + DONE)
    stage.relay.ended(None)
    await stage.relay.opened()
    assert b'"a"' in await stage.rest()


async def test_opened_waits_for_an_event_and_not_for_a_comment() -> None:
    stage = Stage()
    opening = asyncio.create_task(stage.relay.opened())
    stage.relay.received(b": ping\n\n")
    await turns()
    assert not opening.done()
    stage.relay.received(text("a"))
    await opening


async def test_a_writer_that_waits_is_woken_once_something_is_due() -> None:
    stage = Stage()
    stage.relay.received(text("first"))
    await stage.relay.opened()
    await stage.next_flush()
    waiting = asyncio.create_task(stage.next_flush())
    await turns()
    stage.relay.received(b"".join(text(word) for word in "abcd"))
    assert b"abcd" in await waiting


async def test_the_end_finds_a_writer_that_waits() -> None:
    stage = Stage(held=text("a"))
    await stage.relay.opened()
    await stage.next_flush()
    waiting = asyncio.create_task(stage.rest())
    await turns()
    stage.relay.ended(EngineBroke("it broke"))
    assert b"it broke" in await waiting


async def test_silence_before_the_first_event_ends_in_engine_silent() -> None:
    stage = Stage(first_token=SHORT)
    await stage.relay.opened()
    assert isinstance(stage.buffer.failure, EngineSilent)
    assert stage.engine.closed


async def test_comments_of_an_engine_that_generates_nothing_do_not_put_off_the_first_token() -> None:
    """Case H4: the process that answers HTTP lives and pings, the one that generates hangs."""
    stage = Stage(first_token=5 * SHORT)
    opening = asyncio.create_task(stage.relay.opened())
    async with asyncio.timeout(10):
        while not opening.done():
            stage.relay.received(b": keep-alive\n\n")
            await asyncio.sleep(SHORT / 3)
    assert isinstance(stage.buffer.failure, EngineSilent)


async def test_silence_in_mid_stream_ends_in_engine_stalled_after_what_was_received() -> None:
    stage = Stage(held=text("a") + text("held"), gap=SHORT)
    await stage.relay.opened()
    taken = await stage.rest()
    assert taken.index(b"held") < taken.index(b"error")
    assert isinstance(stage.buffer.failure, EngineStalled)
    assert stage.engine.closed


async def test_comments_in_mid_stream_do_not_put_off_the_gap() -> None:
    """Case H4: as above, once the stream runs."""
    stage = Stage(held=text("a"), gap=5 * SHORT)
    reading = asyncio.create_task(stage.rest())
    async with asyncio.timeout(10):
        while not reading.done():
            stage.relay.received(b": keep-alive\n\n")
            await asyncio.sleep(SHORT / 3)
    assert isinstance(stage.buffer.failure, EngineStalled)


async def test_events_put_off_the_gap_again_and_again() -> None:
    """Case H36: no limit on the whole of a stream."""
    stage = Stage(held=text("a"), gap=0.5, first_token=0.2)
    reading = asyncio.create_task(stage.rest())
    for _ in range(20):
        stage.relay.received(text("b"))
        await asyncio.sleep(0.04)
    stage.relay.received(FINISH + DONE)
    stage.relay.ended(None)
    await reading
    assert stage.buffer.failure is None


async def test_an_engine_that_stays_silent_after_its_own_error_is_hung_up_on() -> None:
    """Case H50."""
    stage = Stage(held=b'data: {"error":{"message":"no","code":500}}\n\n')
    await stage.relay.opened()
    async with asyncio.timeout(10):
        await stage.rest()
    assert stage.engine.closed


async def test_a_client_that_does_not_read_is_cut() -> None:
    """Case H57."""
    stage = Stage(held=text("a"), write=SHORT)
    await stage.next_flush()
    await until(lambda: stage.cuts)
    assert isinstance(stage.cuts[0], ClientTooSlow)


async def test_a_client_that_does_not_read_the_last_event_is_cut_too() -> None:
    """Case H57: the engine is done, and so the end of the answer is all that is still to be written."""
    stage = Stage(held=text("a") + FINISH + DONE, write=SHORT, gap=LONG)
    stage.relay.ended(None)
    await stage.rest()
    await until(lambda: stage.cuts)
    assert isinstance(stage.cuts[0], ClientTooSlow)


async def test_a_client_that_does_not_read_the_end_of_what_was_there_at_once_is_cut_too() -> None:
    """Case H57: the stream never waited, so that nobody had to watch it before."""
    stage = Stage(held=text("a") + FINISH + DONE, write=SHORT, gap=LONG)
    stage.relay.ended(None)
    await stage.relay.pump(lambda _: None, lambda: stage.unsent)  # a socket that takes all, and a client that does not
    await until(lambda: stage.cuts)
    assert isinstance(stage.cuts[0], ClientTooSlow)


async def test_a_client_that_reads_slowly_is_not_cut() -> None:
    """Case H57."""
    stage = Stage(held=text("a"), write=0.3)
    for _ in range(12):
        await stage.next_flush()
        await asyncio.sleep(0.05)
        stage.relay.received(text("b") * 4)
    assert not stage.cuts


async def test_an_engine_is_not_read_while_too_much_waits_and_is_read_again_later() -> None:
    """Case H57: what is held has a bound."""
    stage = Stage(held=text("a"), high_water=1000)
    await stage.next_flush()
    while not stage.engine.paused:
        stage.relay.received(text("words"))
    assert len(await stage.next_flush()) < 2000
    assert not stage.engine.paused


async def test_the_time_in_which_an_engine_was_not_read_is_not_held_against_it() -> None:
    stage = Stage(held=text("a"), high_water=1000, gap=0.2)
    await stage.next_flush()
    while not stage.engine.paused:
        stage.relay.received(text("words"))
    await asyncio.sleep(0.25)
    await stage.next_flush()
    waiting = asyncio.create_task(stage.next_flush())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert stage.buffer.failure is None
    waiting.cancel()


async def test_a_stream_that_is_ended_from_outside_says_why_after_what_was_received() -> None:
    """Case H61."""
    stage = Stage(held=text("a") + text("held"))
    stage.relay.ended(Draining("The gateway was shut down.", retry_after=5))
    taken = await stage.rest()
    assert taken.index(b"held") < taken.index(b"shut down")
    assert DONE not in taken


async def test_an_end_after_the_end_says_nothing_more() -> None:
    stage = Stage(held=text("a"))
    stage.relay.ended(None)
    stage.relay.ended(EngineBroke("late"))
    assert b"late" not in await stage.rest()
    assert isinstance(stage.buffer.failure, EngineTruncated)


class Fault(Exception):
    """A mistake of ours."""


@pytest.mark.parametrize("where", ["match", "collect", "may_wait", "wake_at"])
async def test_a_fault_of_ours_reaches_the_owner_and_not_the_connection_of_the_engine(where: str) -> None:
    """Case H3: raised into the event loop it would end the connection and be put down to the engine."""
    stage = Stage(held=text("a"))
    await stage.relay.opened()
    assert await stage.next_flush()
    waiting = asyncio.create_task(stage.rest())
    await turns()
    stage.buffer._strategy = Faulty(stage.buffer, where)
    stage.relay.received(text("b"))
    with pytest.raises(Fault):
        await waiting
    assert stage.engine.closed or where in {"may_wait", "wake_at"}  # these two in the owner's own call


async def test_a_fault_of_ours_at_the_end_reaches_the_owner() -> None:
    stage = Stage(held=text("a"))
    await stage.next_flush()
    waiting = asyncio.create_task(stage.next_flush())
    await turns()
    stage.buffer._strategy = Faulty(stage.buffer, "flush")
    stage.relay.ended(None)
    with pytest.raises(Fault):
        await waiting


class Faulty:
    """A strategy of which one method fails."""

    def __init__(self, buffer: TokenBuffer, where: str) -> None:
        self._real = STRATEGIES["window"](Window(4, 0.0), buffer._outbox)
        self._where = where

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._where else getattr(self._real, name)

    def _fail(self, *_: object) -> None:
        raise Fault


def plain(word: str) -> bytes:
    """A chunk as vLLM writes it, long enough to be a template's."""
    return (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
        b'"delta":{"content":"%b"},"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n' % word.encode()
    )


async def test_a_token_that_would_only_be_held_is_left_in_the_kernel_and_read_by_the_alarm() -> None:
    stage = Stage(window=Window(64, 0.05))
    stage.relay.received(plain("a"))
    await stage.relay.opened()
    reading = asyncio.create_task(stage.rest())
    for word in "bcde":
        await asyncio.sleep(0.002)
        stage.relay.received(plain(word))
    assert len(plain("f")) < stage.engine.left < 2 * len(plain("f"))
    looks = stage.engine.looks
    await until(lambda: stage.engine.looks > looks)
    stage.relay.received(FINISH + DONE)
    stage.relay.ended(None)
    assert (await reading).count(b'"content"') >= 2


async def test_an_alarm_that_finds_nothing_in_the_kernel_writes_what_is_held_and_rings_again_a_window_later() -> None:
    delay = 0.05
    stage = Stage(window=Window(64, delay))
    taken: list[bytes] = []
    pump = asyncio.create_task(stage.relay.pump(taken.append, int))
    for word in "abcdef":
        stage.relay.received(plain(word))
        await asyncio.sleep(0.002)
    assert stage.engine.left > 1
    await until(lambda: b"f" in b"".join(taken).rpartition(b'"content":')[2])
    looks, now = stage.engine.looks, asyncio.get_running_loop().time()
    await until(lambda: stage.engine.looks >= looks + 3)
    assert asyncio.get_running_loop().time() - now > 2 * delay
    stage.relay.ended(EngineBroke("over"))
    await pump


async def test_how_long_the_rest_of_a_window_takes_is_told_again_when_the_pace_changes() -> None:
    stage = Stage(window=Window(4, LONG))
    stage.relay.received(plain("a"))
    await stage.relay.opened()
    reading = asyncio.create_task(stage.rest())
    told = []
    for gap in (0.002, 0.1):
        for word in "bcdef":
            await asyncio.sleep(gap)
            stage.relay.received(plain(word))
        told.append(stage.engine.rest)
    assert 0 < told[0] < told[1]
    stage.relay.ended(EngineBroke("over"))
    await reading


async def test_nothing_is_left_in_the_kernel_where_the_next_token_is_not_expected_in_time() -> None:
    stage = Stage(window=Window(4, 0.001))
    stage.relay.received(plain("a"))
    await stage.relay.opened()
    reading = asyncio.create_task(stage.rest())
    for word in "bcde":
        await asyncio.sleep(0.01)
        stage.relay.received(plain(word))
    assert stage.engine.left == 0
    stage.relay.ended(EngineBroke("over"))
    await reading


async def test_an_engine_that_filled_the_buffer_at_once_is_read_on_once_a_quick_client_has_taken_it() -> None:
    stage = Stage(high_water=1024)
    taken: list[bytes] = []
    pump = asyncio.create_task(stage.relay.pump(taken.append, int))  # a socket that is never full
    stage.relay.received(text("a"))
    await turns()
    stage.relay.received(text("x" * 20_000))
    assert not stage.engine.paused
    stage.relay.received(FINISH + DONE)
    stage.relay.ended(None)
    await pump
    assert b"".join(taken).endswith(DONE)


async def test_a_client_that_reads_a_large_flush_slowly_is_not_cut_while_it_reads() -> None:
    """Case H57: ten kilobytes a second are slow, but they are reading."""
    stage = Stage(held=text("a"), write=0.05)
    await stage.relay.opened()
    await stage.next_flush()
    for _ in range(8):
        stage.unsent -= 1
        await asyncio.sleep(0.03)
    assert not stage.cuts
    await until(lambda: stage.cuts)
    assert isinstance(stage.cuts[0], ClientTooSlow)
    stage.relay.ended(None)
