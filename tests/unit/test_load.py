"""What the load benchmarks decide without starting anything."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from benchmarks.load.answers import Recording, Seen, Wanted, judge, whole_size
from benchmarks.load.cells import CELLS, PLAIN, PROSE, Cell, chosen
from benchmarks.load.client import Connection
from benchmarks.load.figures import Figures, figures, middle, ratio
from benchmarks.load.metering import TICKS, below, cpu_of
from benchmarks.load.proxies import given, nginx, tokenlane
from benchmarks.load.report import compared, save
from benchmarks.load.stage import Cores, shared_out

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PACED = Cell("paced", clients=1, gap=20, tokens=3)
ASKED = 1_000_000
"""When everything here was asked, microseconds."""


def stamp(late_ms: int) -> str:
    return f" @{ASKED + late_ms * 1000:016x}"


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def usage(tokens: int = 3, prompt: int = 12) -> bytes:
    told = {"prompt_tokens": prompt, "completion_tokens": tokens}
    return b"data: " + json.dumps({"choices": [], "usage": told}).encode() + b"\n\n"


def stream(*texts: str, finish: str = "length", last: Sequence[bytes] = (usage(), b"data: [DONE]\n\n")) -> list[bytes]:
    """Events of an answer whose last text has the finish."""
    *others, final = texts
    opening = event({"role": "assistant", "content": ""})
    return [opening, *(event({"content": text}) for text in others), event({"content": final}, finish), *last]


STAMPED = stream(stamp(1), stamp(21), stamp(41))


def chunked(*pieces: bytes) -> bytes:
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def recorded(*pieces: bytes, times: Sequence[int] = (2,)) -> Recording:
    """Pieces that came so many milliseconds after they were asked for; the last time stands for all that follow."""
    late = [*times, *[times[-1]] * (len(pieces) - len(times))]
    return Recording(ASKED, [ASKED + each * 1000 for each in late], list(pieces))


def judged(*events: bytes, cell: Cell = PACED, wanted: Wanted = Wanted()) -> Seen:  # noqa: B008 - frozen
    return judge(recorded(chunked(*events)), cell, wanted)


def test_an_answer_that_is_right_gives_its_figures() -> None:
    raw = chunked(*STAMPED)
    cut = raw.index(b"data:", raw.index(stamp(1).encode()))
    seen = judge(recorded(raw[:cut], raw[cut:], times=[2, 50]), PACED, Wanted())
    assert seen.wrong is None
    assert (seen.tokens, seen.events, seen.prompt) == (3, 5, 12)
    assert seen.wait == 2
    assert list(seen.ages) == [1, 29, 9]
    assert seen.tail == 9
    assert seen.size == len(raw) - len(HEAD)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_answer_is_read_in_any_cut_and_a_token_came_when_its_last_byte_did(size: int) -> None:
    raw = chunked(*STAMPED)
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    seen = judge(recorded(*pieces, times=[at + 100 for at in range(len(pieces))]), PACED, Wanted())
    lasts = [raw.index(stamp(late).encode()) + len(stamp(late)) - 1 for late in (1, 21, 41)]
    assert seen.wrong is None
    assert seen.ages == tuple(100 + last // size - late for last, late in zip(lasts, (1, 21, 41), strict=True))


def test_chunks_of_a_proxy_may_end_within_an_event() -> None:
    body = b"".join(STAMPED)
    assert judged(*(body[at : at + 9] for at in range(0, len(body), 9))).wrong is None


def test_several_tokens_of_one_event_are_as_many_tokens() -> None:
    seen = judged(*stream(stamp(1), stamp(21) + stamp(41)))
    assert (seen.wrong, seen.tokens, seen.events, len(seen.ages)) == (None, 3, 4, 3)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        (stream(stamp(1), stamp(41)), "2 of 3 tokens"),
        (stream("prose"), "x-sim headers"),
        (stream(stamp(1), stamp(41), stamp(21)), "not in order"),
        (stream(stamp(1), "!", stamp(21) + stamp(41)), "3 of 3 tokens"),
        (stream(stamp(1), stamp(21), stamp(41), finish="stop"), "finish"),
        (stream(stamp(1), stamp(21), stamp(41), last=[usage()]), "DONE"),
        (stream(stamp(1), stamp(21), stamp(41), last=[b"data: [DONE]\n\n"]), "usage"),
        (stream(stamp(1), stamp(21), stamp(41), last=[usage(2), b"data: [DONE]\n\n"]), "usage"),
        ([b'data: {"error": {"message": "no"}}\n\n', b"data: [DONE]\n\n"], "an error"),
        ([b"data: {\n\n", b"data: [DONE]\n\n"], "no JSON"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_wrong(events: list[bytes], complaint: str) -> None:
    assert complaint in (judged(*events).wrong or "")


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "no answer"),
        (HEAD, "cut"),
        (chunked(*STAMPED)[:-5], "cut"),
        (chunked(*STAMPED)[:-40], "cut"),
        (chunked(*STAMPED) + b"more", "follows"),
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno", "status 503: b'no'"),
    ],
)
def test_an_answer_that_is_not_whole_http_is_wrong(raw: bytes, complaint: str) -> None:
    assert complaint in (judge(recorded(raw), PACED, Wanted()).wrong or "")


def test_a_prompt_that_a_proxy_counts_otherwise_is_wrong() -> None:
    assert judged(*STAMPED, wanted=Wanted(prompt=12)).wrong is None
    assert "usage" in (judged(*STAMPED, wanted=Wanted(prompt=11)).wrong or "")


def test_prose_has_to_be_the_engines_own() -> None:
    events = stream("né", "e", " ", last=[usage(64), b"data: [DONE]\n\n"])
    assert judged(*events, cell=PROSE).text == "née "
    assert judged(*events, cell=PROSE, wanted=Wanted("née ")).wrong is None
    assert "text" in (judged(*events, cell=PROSE, wanted=Wanted("nee ")).wrong or "")


def test_a_whole_answer_takes_until_its_end() -> None:
    told = {"prompt_tokens": 12, "completion_tokens": 16}
    choice = {"message": {"content": "Yes."}, "finish_reason": "length"}
    body = json.dumps({"choices": [choice], "usage": told}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    seen = judge(recorded(head, body, times=[1, 7]), PLAIN, Wanted("Yes.", 12))
    assert (seen.wrong, seen.wait, seen.tail, seen.ages, seen.size) == (None, 7, None, (), len(body))


def test_the_head_tells_how_much_is_to_come() -> None:
    assert whole_size(HEAD) is None
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    assert whole_size(head) == len(head) + 5
    assert whole_size(b"HTTP/1.1 200 OK\r\n\r\n") == inf


class Wire(asyncio.Transport):
    """A transport that a script answers, piece by piece, as soon as something is asked; then it closes, or not."""

    def __init__(self, connection: Connection, pieces: Sequence[bytes], *, closes: bool = False) -> None:
        super().__init__()
        self._connection, self._pieces, self._closes = connection, pieces, closes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert data
        for piece in self._pieces:
            self._connection.data_received(piece)
        if self._closes:
            self._connection.connection_lost(None)


@pytest.mark.parametrize("size", [1, 3, 6, 1000])
async def test_the_client_finds_the_end_of_an_answer_in_any_cut(size: int) -> None:
    for raw in (chunked(b"a\n\n", b"10\r\n\r\n"), b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"):
        connection = Connection()
        pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
        connection.connection_made(Wire(connection, pieces))
        for _ in range(2):
            recording = await connection.ask(b"GET")
            assert b"".join(recording.pieces) == raw
            assert len(recording.times) == len(recording.pieces)
        assert connection.open


async def test_an_answer_that_the_close_ends_is_what_had_come() -> None:
    connection = Connection()
    connection.connection_made(Wire(connection, [HEAD], closes=True))
    recording = await connection.ask(b"GET")
    assert recording.pieces == [HEAD]
    assert not connection.open


def test_requests_are_of_their_cell() -> None:
    head, _, body = CELLS["paced-20"].request(80).partition(b"\r\n\r\n")
    assert b"x-sim-itl-ms: 20\r\n" in head
    assert b"x-sim-stamp: 1\r\n" in head
    assert f"Content-Length: {len(body)}".encode() in head
    asked = json.loads(body)
    assert (asked["max_tokens"], asked["stream"], asked["stream_options"]) == (128, True, {"include_usage": True})
    assert "stream" not in json.loads(PLAIN.request(80).partition(b"\r\n\r\n")[2])


def test_cells_are_chosen_by_name() -> None:
    assert [cell.name for cell in chosen("fast,plain")] == ["fast", "plain"]
    with pytest.raises(ValueError, match=r"unknown: slow; there are paced-20"):
        chosen("fast,slow")


RIGHT = Seen(tokens=10, events=5, size=1000, wait=4, ages=(1.0, 3.0), tail=2)


def counted(seen: Sequence[Seen], cell: Cell = PACED, cpu: float | None = 0.002) -> Figures:
    return figures(seen, cell, 2.0, cpu=cpu, busy=0.5, others=-0.01, memory=3 * 2**20)


def test_figures_are_for_each_token_of_right_answers() -> None:
    found = counted([RIGHT, replace(RIGHT, wait=8.0), Seen(wrong="cut")])
    assert (found.cpu, found.rate, found.events, found.size) == (100, 10, 0.5, 100)
    assert (found.wait_p50, found.age_p50, found.tail_p99, found.memory) == (6, 2, 2, 3)
    assert (found.wrong, found.complaint, found.others) == (1, "cut", 0)


def test_figures_of_whole_answers_are_for_each_request() -> None:
    found = counted([replace(RIGHT, ages=(), tail=None)] * 4, PLAIN)
    assert (found.cpu, found.rate) == (500, 2)
    assert (found.age_p50, found.tail_p99, found.events) == (None, None, None)


def test_without_a_right_answer_there_are_no_figures_but_the_wrong_ones() -> None:
    found = counted([Seen(wrong="cut")])
    assert (found.cpu, found.rate, found.wait_p50, found.size, found.wrong) == (None, 0, None, None, 1)


def test_rounds_give_medians_and_all_that_is_wrong() -> None:
    rounds = [counted([RIGHT]), counted([replace(RIGHT, wait=5.0)]), counted([replace(RIGHT, wait=90.0)])]
    found = middle([*rounds, replace(rounds[0], wrong=2, complaint="cut", cpu=None)])
    assert (found.wait_p50, found.cpu, found.wrong, found.complaint) == (4.5, 200, 2, "cut")


def test_a_ratio_needs_both() -> None:
    assert ratio(3, 2) == 1.5
    assert [ratio(None, 2), ratio(3, None), ratio(3, 0)] == [None, None, None]


def test_the_table_has_ratios_to_nginx_and_to_the_engine_and_says_what_is_in_doubt() -> None:
    own = counted([RIGHT])
    peers = {
        "direct": replace(own, cpu=None, memory=None, busy=0.99),
        "nginx": replace(own, cpu=50.0, rate=2.5),
        "tokenlane": replace(own, cpu=75.0, wait_p50=6.0, wrong=1, complaint="cut", others=0.5),
    }
    text = compared(PACED, peers)
    [line] = [line for line in text.splitlines() if line.startswith("| tokenlane")]
    assert line.startswith("| tokenlane | 75.0 | 1.50 | 5.00 | 1.00 | 6.00 / 4.00 | 1.50 |")
    assert "99% (full)" in text
    assert "**Wrong** from tokenlane: cut" in text
    assert "**Other processes** used 0.50 cores" in text


def test_without_nginx_there_is_no_ratio_to_it() -> None:
    own = counted([RIGHT])
    text = compared(PLAIN, {"direct": replace(own, cpu=None), "tokenlane": own})
    assert "| tokenlane | 200 | - |" in text
    assert "age" not in text


def test_a_result_is_dated_and_a_folder_is_made(tmp_path: Path) -> None:
    file = save(tmp_path / "new", "peers", {"facts": {"at": "2027-01-02T03:04:05+00:00"}})
    assert file == tmp_path / "new" / "2027-01-02-peers.json"
    assert json.loads(file.read_text())["facts"]["at"].startswith("2027")


def test_a_given_proxy_has_its_port_and_its_engines_filled_in() -> None:
    proxy = given("other=run --port {port} --to {engine}", 81, [91])
    assert (proxy.name, proxy.command[-1]) == ("other", "exec run --port 81 --to http://127.0.0.1:91")
    several = given("other=A=1 run {port} {engines}", 81, [91, 92])
    assert several.command[-1] == "exec A=1 run 81 http://127.0.0.1:91,http://127.0.0.1:92"


@pytest.mark.parametrize("text", ["other", "=run {port} {engines}", "other=run", "other=run {port} {engine}"])
def test_a_proxy_that_cannot_be_compared_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no NAME=COMMAND|needs \{engines\}"):
        given(text, 81, [91, 92])


def test_both_lanes_of_tokenlane_know_all_engines_by_names_of_their_own() -> None:
    variables = tokenlane(81, [91, 92]).variables
    listed = [json.loads(value) for name, value in variables.items() if name.endswith("__ENGINES")]
    assert [[each["url"][-2:] for each in engines] for engines in listed] == [["91", "92"]] * 2
    assert len({each["name"] for engines in listed for each in engines}) == 4


def test_nginx_does_not_buffer_and_keeps_its_connections(tmp_path: Path) -> None:
    if nginx(81, [91, 92], tmp_path) is None:
        pytest.skip("no nginx here")
    text = (tmp_path / "nginx.conf").read_text()
    assert "proxy_buffering off;" in text
    assert "server 127.0.0.1:91; server 127.0.0.1:92; keepalive 256;" in text


def test_all_descendants_of_a_process_are_metered_but_not_itself() -> None:
    assert below(2, {2: 1, 3: 2, 4: 3, 5: 3, 6: 1, 7: 6}) == {3, 4, 5}


def test_the_exact_time_counts_unless_threads_have_ended() -> None:
    stat = f"7 (a ) name) S 1 {'0 ' * 9}{TICKS} {TICKS} {TICKS} 0 20"
    assert cpu_of(stat, 2_005_000_000) == 2.005 + 1
    assert cpu_of(stat, 5) == 2 + 1


def test_the_proxies_have_the_last_core_and_the_rest_as_many_of_the_first_as_there_are_engines() -> None:
    assert shared_out([5], 1) == Cores()
    assert shared_out([0, 1], 1) == Cores([0], [1])
    assert shared_out([0, 1], 4) == Cores([0], [1])
    assert shared_out([2, 3, 4, 5], 2) == Cores([2, 3], [5])
