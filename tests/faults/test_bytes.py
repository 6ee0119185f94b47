"""The same stream in every cut and spelling, over real sockets: the client sees the same text."""

import pytest

from tests.fakes.scripted_engine import Fin, Read, ScriptedEngine, Send, Step, chunk, stream_head
from tests.faults.asking import DONE, END, ROLE, ask, finish, gateway_on, streamed, text

EVENTS = [ROLE, text("你好🚀"), text(" café"), text("\u2028x\u0085y"), finish(), DONE]
SAID = "你好🚀 café\u2028x\u0085y"


async def seen(*pieces: Send, ends: bool = True) -> None:
    """Plays the pieces and looks at what the client gets."""
    script: list[Step] = [Read(), *pieces, *(() if ends else (Fin(),))]
    async with ScriptedEngine(script) as engine, gateway_on(engine) as gateway:
        answer = await ask(gateway.url)
        assert (answer.text, answer.done, answer.whole) == (SAID, True, True)
        assert b"\r" not in answer.body
        assert b'"error"' not in answer.body


async def test_every_cut_of_the_bytes_gives_the_same_text() -> None:
    """Cases H14 and H25: each offset in turn, on one connection after the other."""
    whole = streamed(*EVENTS) + END
    start = whole.index(text("你好🚀")[:20])
    offsets = range(start, start + len(text("你好🚀 café")) + 20, 3)
    scripts: list[list[Step]] = [[Read(), Send(whole[:at]), Send(whole[at:]), Fin()] for at in offsets]
    async with ScriptedEngine(*scripts) as engine, gateway_on(engine) as gateway:
        for _ in offsets:
            assert (await ask(gateway.url)).text == SAID


async def test_a_byte_a_write_gives_the_same_text() -> None:
    """Cases H14 and H25 (a)."""
    await seen(Send(streamed(*EVENTS) + END, cut=1))


async def test_everything_in_one_write_gives_the_same_text() -> None:
    """Case H25 (b)."""
    await seen(Send(stream_head() + chunk(b"".join(EVENTS)) + END))


SPELLINGS = {
    "CRLF": lambda event: event.replace(b"\n", b"\r\n"),
    "CR": lambda event: event.replace(b"\n", b"\r"),
    "mixed": lambda event: event[:-2] + b"\r\n\n",
    "no space": lambda event: event.replace(b"data: ", b"data:"),
    "comments": lambda event: b": ping - now\n\n" + event,
    "retry and id": lambda event: b"retry: 3000\n\n" + b"id: 7\n" + event,
    "an event without data": lambda event: b"event: x\n\n" + event,
    "several data lines": lambda event: event.replace(b',"choices"', b'\ndata: ,"choices"'),
}


@pytest.mark.parametrize("cut", [0, 7])
@pytest.mark.parametrize("name", SPELLINGS)
async def test_every_spelling_of_an_event_stream_is_read_and_one_is_written(name: str, cut: int) -> None:
    """Cases H25 H26 H27: tokens arrive, and what leaves has LF line ends only."""
    await seen(Send(streamed(*(SPELLINGS[name](event) for event in EVENTS)) + END, cut=cut))


async def test_cr_and_lf_in_different_segments_are_one_line_end() -> None:
    """Case H26."""
    pieces = [Send(stream_head())]
    for event in EVENTS:
        spelled = event.replace(b"\n", b"\r\n")
        pieces += [Send(chunk(spelled[:-1])), Send(chunk(spelled[-1:]))]
    await seen(*pieces, Send(END))


async def test_a_last_event_without_its_blank_line_counts() -> None:
    """Case H25 (e)."""
    bare = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    await seen(Send(bare + b"".join(EVENTS)[:-2]), ends=False)


async def test_a_stream_with_a_length_is_a_stream() -> None:
    data = b"".join(EVENTS)
    await seen(
        Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(data) + data)
    )
