"""The oracle of the chaos run: what would be wrong with an answer is noticed, and what is right is not."""

import json
from dataclasses import replace

import pytest

from app.sim.settings import SimSettings
from benchmarks.chaos.asks import CHAT, COMPLETIONS, MODEL, Ask, Behaviour, draw
from benchmarks.chaos.oracle import Answer, Circumstances, judge
from benchmarks.chaos.truth import expected
from tests.traces.script import Json

SIM = SimSettings()
CALM = Circumstances(troubled=False, commit_after=1.0)
TROUBLED = replace(CALM, troubled=True)
ERROR = b'{"error":{"message":"m","type":"t","param":null,"code":"engine_broke"}}'


def ask(fault: str | None = None, *, stream: bool = True, tokens: int = 6, **body: object) -> Ask:
    headers = {"x-request-id": "one", "x-sim-tokens": str(tokens)} | ({"x-sim-fault": fault} if fault else {})
    asked = {"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "x"}], **body}
    return Ask("one", "POST", CHAT, headers, json.dumps(asked).encode(), "batch", stream, fault)


def chunk(delta: Json, end: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": end}
    head = {"id": "chatcmpl-one", "object": "chat.completion.chunk", "model": MODEL}
    return json.dumps(head | {"choices": [choice]}).encode()


TEXT = [" is", " tokenlane's", " simulated", " engine", "."]
RIGHT = [
    chunk({"role": "assistant"}),
    chunk({"content": "This"}),
    *(chunk({"content": word}) for word in TEXT),
    chunk({}, "stop"),
    b"[DONE]",
]


def streamed(*events: bytes, seconds: float = 0.1, complete: bool = True, tail: bytes = b"") -> Answer:
    body = b"".join(b"data: " + event + b"\n\n" for event in events) + tail
    return Answer(200, {}, body, complete, seconds)


def refused(status: int, body: bytes = ERROR, retry_after: str | None = None) -> Answer:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return Answer(status, headers, body, complete=True, seconds=0.1)


def kinds(asked: Ask, answer: Answer, given: Circumstances = CALM) -> list[str]:
    return [wrong.kind for wrong in judge(asked, expected(asked, SIM), answer, given)]


def test_what_the_engine_says_is_right() -> None:
    assert kinds(ask(), streamed(*RIGHT)) == []


def test_pings_and_merged_chunks_are_right() -> None:
    merged = [*RIGHT[:2], chunk({"content": "".join(TEXT)}), *RIGHT[-2:]]
    pinged = replace(streamed(*merged), body=b": ping\n\n" + streamed(*merged).body)
    assert kinds(ask(), pinged) == []


@pytest.mark.parametrize("at", range(len(RIGHT) - 2))
def test_a_lost_token_is_noticed(at: int) -> None:
    """In the middle it makes the text another one; the last one is missing alone."""
    found = kinds(ask(), streamed(*RIGHT[:at], *RIGHT[at + 1 :]))
    assert {"text", "lost"} & set(found)


def test_a_lost_token_before_an_ending_in_error_is_noticed_and_counted() -> None:
    asked = ask("cut@3")
    assert kinds(asked, streamed(*RIGHT[:4], ERROR)) == []
    (wrong,) = judge(asked, expected(asked, SIM), streamed(*RIGHT[:3], ERROR), CALM)
    assert (wrong.kind, wrong.lost) == ("lost", len(" tokenlane's"))


@pytest.mark.parametrize("at", range(len(RIGHT) - 2))
def test_a_doubled_chunk_is_noticed(at: int) -> None:
    assert "text" in kinds(ask(), streamed(*RIGHT[: at + 1], *RIGHT[at:]))


def test_a_doubled_finish_is_noticed() -> None:
    assert "after the finish" in kinds(ask(), streamed(*RIGHT[:-1], *RIGHT[-2:]))


def test_a_chunk_after_the_finish_is_noticed() -> None:
    late = [*RIGHT[:-3], RIGHT[-2], RIGHT[-3], RIGHT[-1]]
    assert "after the finish" in kinds(ask(), streamed(*late))


@pytest.mark.parametrize("second", [b"[DONE]", ERROR])
def test_a_second_ending_is_noticed(second: bytes) -> None:
    assert "endings" in kinds(ask(), streamed(*RIGHT, second))


def test_text_after_the_ending_is_noticed() -> None:
    assert "after the end" in kinds(ask(), streamed(*RIGHT[:-1], b"[DONE]", RIGHT[1]))


def test_a_missing_ending_is_noticed() -> None:
    assert "endings" in kinds(ask(), streamed(*RIGHT[:-1]))


def test_a_stream_that_was_cut_but_looks_finished_is_noticed_even_in_trouble() -> None:
    """Case H7."""
    assert kinds(ask(), streamed(*RIGHT[:4], ERROR), TROUBLED) == []
    assert "lost" in kinds(ask(), streamed(*RIGHT[:4], b"[DONE]"), TROUBLED)


def test_trouble_of_the_engine_excuses_an_error_and_calm_does_not() -> None:
    assert kinds(ask(), streamed(*RIGHT[:4], ERROR)) == ["endings"]
    assert kinds(ask(), refused(502), TROUBLED) == []
    assert kinds(ask(), refused(502)) == ["status"]


def test_wrong_text_is_noticed_even_in_trouble() -> None:
    assert "text" in kinds(ask(), streamed(*RIGHT[:2], RIGHT[3], ERROR), TROUBLED)


def test_what_is_no_event_or_no_json_is_noticed() -> None:
    assert kinds(ask(), streamed(*RIGHT, tail=b"data: {")) == ["sse"]
    assert kinds(ask(), replace(streamed(*RIGHT), body=b"date: x\n\n")) == ["sse"]
    assert kinds(ask(), streamed(*RIGHT[:2], b"{oops")) == ["json"]


def test_a_refusal_needs_its_retry_after() -> None:
    full = ERROR.replace(b"engine_broke", b"lane_full")
    assert kinds(ask(), refused(429, full)) == ["retry-after"]
    assert kinds(ask(), refused(429, full, retry_after="0")) == ["retry-after"]
    assert kinds(ask(), refused(429, full, retry_after="3")) == []


def test_the_engine_s_own_retry_after_has_to_arrive() -> None:
    busy = ask("status:503;retry-after=3")
    own = ERROR.replace(b'"engine_broke"', b"503")
    assert kinds(busy, refused(503, own)) == ["retry-after"]
    assert kinds(busy, refused(503, own, retry_after="3")) == []
    assert kinds(busy, refused(502), TROUBLED) == []


def test_a_status_that_is_not_documented_and_an_error_of_another_shape_are_noticed() -> None:
    assert "status" in kinds(ask(), refused(418))
    assert kinds(ask(), refused(502, b"<html>")) == ["error body"]


def test_an_error_before_the_first_token_is_a_status_unless_the_stream_had_to_be_opened() -> None:
    silent = ask("stall@0")
    assert kinds(silent, refused(504)) == []
    assert kinds(silent, streamed(ERROR, seconds=4)) == []
    assert kinds(silent, streamed(ERROR, seconds=0.5)) == ["status"]


def test_whoever_waits_for_ever_and_a_broken_connection_are_noticed() -> None:
    assert kinds(ask(), replace(streamed(*RIGHT[:3], complete=False), given_up=True)) == ["hung"]
    assert kinds(ask(), streamed(*RIGHT[:3], complete=False)) == ["cut"]
    left = replace(ask(), behaviour=Behaviour.LEAVE)
    assert kinds(left, streamed(*RIGHT[:3], complete=False, tail=b"data: {")) == []


def test_a_whole_answer_has_to_be_the_engine_s() -> None:
    asked = ask(stream=False)
    truth = expected(asked, SIM)
    assert isinstance(truth.whole, dict)
    body = json.dumps({**truth.whole, "created": 7}).encode()
    assert kinds(asked, refused(200, body)) == []
    assert kinds(asked, refused(200, body.replace(b"simulated", b"simulate"))) == ["text"]
    assert kinds(asked, refused(200, body[:-2])) == ["json"]


def test_a_completion_is_expected_with_its_own_id() -> None:
    headers = {"x-request-id": "one", "x-sim-tokens": "3"}
    body = json.dumps({"model": MODEL, "stream": True, "prompt": "x"}).encode()
    asked = Ask("one", "POST", COMPLETIONS, headers, body, "batch", stream=True)
    head = {"id": "cmpl-one", "object": "text_completion", "model": MODEL}
    ends = [None, None, None, "stop"]
    texts = ["This", " is", " tokenlane's", ""]
    choices = [{"index": 0, "text": text, "finish_reason": end} for text, end in zip(texts, ends, strict=True)]
    chunks = [json.dumps(head | {"choices": [choice]}).encode() for choice in choices]
    assert kinds(asked, streamed(*chunks, b"[DONE]")) == []


def test_the_request_of_a_name_is_always_the_same() -> None:
    names = [f"seed.{number}" for number in range(300)]
    assert [draw(name) for name in names] == [draw(name) for name in names]
    assert {draw(name).behaviour for name in names} == set(Behaviour)


def test_a_finish_said_twice_is_expected_once() -> None:
    truth = expected(ask("double_finish"), SIM)
    assert [len(choice.ends) for choice in truth.said.choices.values()] == [1]


@pytest.mark.parametrize("came", [4, len(RIGHT) - 2, len(RIGHT) - 1])
def test_a_reset_right_behind_the_finish_may_take_the_finish_with_it_and_then_the_stream_ends_with_an_error(
    came: int,
) -> None:
    """The engine's own socket drops what it has not sent: its reset overtakes data, for every client there is."""
    whole = came == len(RIGHT) - 1
    end = b"[DONE]" if whole else ERROR
    assert kinds(ask("reset@7"), streamed(*RIGHT[:came], end)) == []
    assert kinds(ask("reset@7"), streamed(*RIGHT[: came - 1], b"[DONE]")) == ["lost"]
