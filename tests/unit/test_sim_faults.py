"""Faults as changes of a series of steps, without a socket."""

import zlib
from typing import Any

import orjson
import pytest

from app.sim.faults import KINDS, Fault, read_fault
from app.sim.jobs import Circumstances, Job, make_job, read_request
from app.sim.settings import SimSettings
from app.sim.steps import Act, Part, Step

SETTINGS = SimSettings(tokens=6)
GIVEN = Circumstances(ordinal=1, now=1_800_000_000.0, answer_id="0" * 16, close=False)


def job(fault: str, *, stream: bool = True, ordinal: int = 1, **headers: str) -> Job:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "stream": stream}
    named = {"x-sim-fault": fault} | {name.replace("_", "-"): value for name, value in headers.items()}
    asked, controls = read_request("/v1/chat/completions", orjson.dumps(body), named, SETTINGS)
    given = Circumstances(ordinal, GIVEN.now, GIVEN.answer_id, GIVEN.close)
    return make_job(asked, controls, named, SETTINGS, given)


def steps(fault: str, *, stream: bool = True, accept_encoding: str = "") -> list[Step]:
    plan = job(fault, stream=stream, accept_encoding=accept_encoding).plan
    return [*plan.before, *plan.during]


def parts(fault: str) -> list[Part]:
    return [step.part for step in steps(fault)]


WHOLE = [Part.HEAD, Part.ROLE, *[Part.TOKEN] * 6, Part.FINISH, Part.DONE, Part.OTHER]


@pytest.mark.parametrize("kind", ["cut", "reset", "stall"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_an_ending_comes_after_as_many_token_events_as_asked(kind: str, after: int) -> None:
    done = steps(f"{kind}@{after}")
    assert [step.part for step in done[:-1]] == (WHOLE[: after + 2] if after else [Part.HEAD])
    assert done[-1].act is {"cut": Act.FIN, "reset": Act.RESET, "stall": Act.STALL}[kind]


def test_a_cut_event_ends_within_the_json() -> None:
    *_, half, end = steps("cut_event@2")
    assert half.act is Act.RAW
    assert b"data: {" in half.data
    assert not half.data.endswith(b"\n")
    assert end.act is Act.FIN


@pytest.mark.parametrize("kind", ["cut", "cut_event", "reset", "stall"])
def test_without_stream_an_ending_comes_in_the_middle_of_the_body(kind: str) -> None:
    head, half, end = (step for step in steps(kind, stream=False) if step.act is not Act.QUIET)
    assert int(head.data.partition(b"content-length: ")[2].split()[0]) in (len(half.data) * 2, len(half.data) * 2 + 1)
    assert end.act in {Act.FIN, Act.RESET, Act.STALL}


def test_an_error_event_has_spaces_and_is_followed_by_done() -> None:
    error, done, end = steps("error_event@2")[-3:]
    assert error.data.startswith(b'data: {"error": {"message": "EngineCore')
    assert error.data.endswith(b'"param": null, "code": 500}}\n\n')
    assert done.data == b"data: [DONE]\n\n"
    assert end.act is Act.END
    assert steps("error_event_open")[-1].act is Act.STALL


def test_without_stream_an_error_event_is_a_500() -> None:
    assert steps("error_event", stream=False)[0].data.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")


def test_a_status_can_ask_for_patience_and_be_a_page() -> None:
    head, body, _ = steps("status:503;retry-after=7;body=html")
    assert b"\r\nretry-after: 7\r\n" in head.data
    assert body.data.startswith(b"<html>")
    assert b"content-type: text/html" in head.data


@pytest.mark.parametrize("code", [400, 401, 404, 429, 500, 503])
def test_a_status_needs_no_seat(code: int) -> None:
    answer = job(f"status:{code}")
    assert answer.seat is None
    assert answer.plan.before[0].data.startswith(b"HTTP/1.1 %d " % code)


def test_events_can_lack_or_come_twice() -> None:
    assert parts("no_done") == [part for part in WHOLE if part is not Part.DONE]
    assert parts("no_finish") == [part for part in WHOLE if part is not Part.FINISH]
    assert parts("only_done") == [Part.HEAD, Part.DONE, Part.OTHER]
    assert parts("only_role") == [Part.HEAD, Part.ROLE, Part.DONE, Part.OTHER]
    assert parts("double_finish").count(Part.FINISH) == 2


def test_garbage_comes_once_and_the_stream_goes_on() -> None:
    done = steps("garbage@2")
    assert done[4].data.startswith(b"\xff")
    assert [step.part for step in done[:4] + done[5:]] == WHOLE


def test_a_gap_delays_one_step_and_with_it_all_after() -> None:
    assert [step.pause for step in steps("slow:250@1")][:5] == [0, 0, 0, 0.25, 0]


@pytest.mark.parametrize(("kind", "end"), [("crlf", b"\r\n\r\n"), ("cr", b"\r\r")])
def test_line_ends_can_be_others(kind: str, end: bytes) -> None:
    events = [step.data for step in steps(kind) if step.act is Act.EVENT]
    assert all(event.endswith(end) and event.count(end[:1]) == 2 for event in events)


def test_a_comment_comes_before_every_event_after_the_nth() -> None:
    done = [step.data for step in steps("comments@6") if step.act is Act.EVENT]
    assert done.count(b": keep-alive\n\n") == 2


def test_one_byte_a_write_is_the_same_stream() -> None:
    single = [step for step in steps("one_byte") if step.act is Act.RAW][1:]
    assert all(len(step.data) == 1 for step in single)
    assert b"".join(step.data for step in single).endswith(b"data: [DONE]\n\n\r\n")


def test_gzip_is_only_for_those_who_take_it() -> None:
    plain = b"".join(step.data for step in steps("") if step.act is Act.EVENT)
    assert b"".join(step.data for step in steps("gzip") if step.act is Act.EVENT) == plain
    packed = steps("gzip", accept_encoding="br, gzip")
    assert b"\r\ncontent-encoding: gzip\r\n" in packed[0].data
    assert zlib.decompress(b"".join(step.data for step in packed if step.act is Act.EVENT), wbits=31) == plain


def test_a_lie_announces_more_than_comes() -> None:
    done = steps("content_length_lie")
    assert b"transfer-encoding" not in done[0].data
    assert b"\r\ncontent-length: 1000000\r\n\r\n" in done[0].data
    assert done[-1].act is Act.FIN


def test_a_rate_hits_about_as_many_as_it_says_and_always_the_same() -> None:
    def hit(ordinal: int) -> bool:
        return job("status:500", ordinal=ordinal, x_sim_fault_rate="0.1").seat is None

    hits = [hit(ordinal) for ordinal in range(500)]
    assert 20 <= sum(hits) <= 90
    assert hits == [hit(ordinal) for ordinal in range(500)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_fault_has_an_end_with_and_without_stream(kind: str) -> None:
    written = {"status": "status:500", "slow": "slow:1"}.get(kind, kind)
    ends = {Act.END, Act.FIN, Act.RESET, Act.STALL}
    for stream in (True, False):
        assert steps(written, stream=stream, accept_encoding="gzip")[-1].act in ends


def test_a_fault_is_read_with_its_place_and_parameters() -> None:
    assert read_fault("status:429@0;retry-after=2") == Fault("status", 0, 429, "2")
    assert read_fault("slow:50@3") == Fault("slow", 3, 50)


@pytest.mark.parametrize("text", ["", "explode", "cut@-1", "cut@x", "status", "status:200", "slow", "cut;when=now"])
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="fault"):
        read_fault(text)
