"""The simulator's own rules: texts, tokens, stop strings, seats, controls, settings."""

from typing import Any

import orjson
import pytest

from app.sim.asked import Asked, read_chat
from app.sim.controls import read_controls
from app.sim.emission import Choice, Delta
from app.sim.script import answers
from app.sim.seats import Seat, Seats
from app.sim.settings import SimSettings
from app.sim.vocabulary import Kind, decode, encode

JSON = {"content-type": "application/json"}
SETTINGS = SimSettings()


def asked(**body: Any) -> Asked:
    messages = [{"role": "user", "content": "hi"}]
    return read_chat(orjson.dumps({"messages": messages, "stream": True} | body), JSON, SETTINGS)


def deltas(headers: dict[str, str] | None = None, **body: Any) -> list[Delta]:
    request = asked(**body)
    answer = answers(request, read_controls(headers or {}, SETTINGS), SETTINGS.tokens)[0]
    choice = Choice(0, answer, request)
    said = []
    while choice.finish is None:
        if (delta := choice.advance()) is not None:
            said.append(delta)
    return said


def text(said: list[Delta]) -> str:
    return "".join(delta.text for delta in said)


def test_the_first_words_say_that_it_is_the_simulator() -> None:
    assert text(deltas()).startswith("This is tokenlane's simulated engine.")


def test_the_same_prompt_gives_the_same_answer_and_another_seed_another() -> None:
    assert text(deltas()) == text(deltas())
    assert text(deltas()) != text(deltas({"x-sim-seed": "1"}))


def test_without_max_tokens_an_answer_stops_after_the_default_length_and_its_end_counts() -> None:
    last = deltas()[-1]
    assert (last.finish, last.generated, last.text) == ("stop", SETTINGS.tokens + 1, "")


def test_max_tokens_cuts_and_the_last_text_comes_with_the_finish() -> None:
    last = deltas(max_tokens=5)[-1]
    assert (last.finish, last.generated) == ("length", 5)
    assert last.text


def test_a_natural_length_below_max_tokens_stops() -> None:
    assert deltas({"x-sim-tokens": "3"}, max_tokens=10)[-1].finish == "stop"


@pytest.mark.parametrize("stop", ["simulated", "lane's simulated en", " is", "This"])
def test_a_stop_string_ends_the_text_before_it_whatever_tokens_it_spans(stop: str) -> None:
    said = deltas(stop=["never", stop])
    assert text(said) == "This is tokenlane's simulated engine.".partition(stop)[0]
    assert (said[-1].finish, said[-1].stop_reason) == ("stop", stop)


def test_a_stop_string_can_be_included() -> None:
    for stop in ("lane's simul", "is tokenlane's simulated eng"):
        said = text(deltas(stop=stop, include_stop_str_in_output=True))
        assert said == "This is tokenlane's simulated engine.".partition(stop)[0] + stop


def test_text_that_may_begin_a_stop_string_waits() -> None:
    said = deltas(stop="abcdefgh", max_tokens=4)
    assert len(said[0].text) == 0
    assert len(said[1].text) == len("This is") - 7 or said[1].text == ""
    assert text(said) == "This is tokenlane's simulated"


def test_a_stop_token_ends_without_its_text() -> None:
    last = deltas(stop_token_ids=[1001])[-1]
    assert (last.text, last.finish, last.stop_reason) == ("", "stop", 1001)


def test_an_interval_sends_the_first_token_alone_then_as_many_as_it_says() -> None:
    assert [len(delta.tokens) for delta in deltas(stream_interval=4, max_tokens=11)] == [1, 4, 4, 2]


def test_a_character_in_parts_is_never_said_in_parts() -> None:
    said = deltas({"x-sim-script": "unicode"}, return_token_ids=True)
    assert "你好😀" in text(said)
    assert "\ufffd" not in text(said)
    assert any(not delta.text and delta.tokens and not delta.finish for delta in said)


@pytest.mark.parametrize(
    ("choice", "finish"),
    [("auto", "tool_calls"), ("required", "tool_calls"), ({"type": "function", "function": {"name": "f"}}, "stop")],
)
def test_a_named_call_stops_and_any_other_finishes_with_tool_calls(choice: object, finish: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}}
    said = deltas(tools=[tool], tool_choice=choice)
    calls = [call for delta in said for call in delta.calls]
    assert said[-1].finish == finish
    assert calls[0] == (0, "f", "")
    assert orjson.loads("".join(arguments for _, _, arguments in calls)) == {"n": 21}


def test_no_tool_is_called_when_the_choice_is_none() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    assert not any(delta.calls for delta in deltas(tools=[tool], tool_choice="none"))


def test_reasoning_comes_before_content_and_is_as_long_as_asked() -> None:
    said = deltas({"x-sim-reasoning": "5", "x-sim-tokens": "3"})
    kinds = [token.kind for delta in said for token in delta.tokens if token.kind is not Kind.HIDDEN]
    assert kinds == [Kind.REASONING] * 5 + [Kind.CONTENT] * 3 + [Kind.END]


def test_a_long_event_has_its_size_in_one_token() -> None:
    assert len(deltas({"x-sim-script": "long_event:100000"})[0].text) == 100_000


@pytest.mark.parametrize("prompt", ["Hello world", "naïve café 你好 😀\n\t!", "a" * 100, "\\ \" ' {}"])
def test_a_prompt_survives_its_tokens(prompt: str) -> None:
    ids = encode(prompt)
    assert "".join(decode(i) or "" for i in ids) == prompt
    assert all(i < 2**53 for i in ids)


@pytest.mark.parametrize("token_id", [-1, 0, 99_999_999, 2**60])
def test_an_id_that_no_token_has_is_out_of_the_vocabulary(token_id: int) -> None:
    assert decode(token_id) is None


def test_seats_let_in_the_lower_priority_first_then_the_first_come() -> None:
    seats = Seats()
    first, late, urgent, early = Seat(1), Seat(1, 5), Seat(1, -3), Seat(1, 5)
    seats.join(first)
    assert seats.admit(1) == [first]
    for seat in (late, urgent, early):
        seats.join(seat)
    order = [first]
    while seats.running:
        seats.leave(order[-1])
        order += seats.admit(1)
    assert order[1:] == [urgent, late, early]
    assert (seats.running, seats.waiting) == (0, 0)


def test_a_waiting_seat_that_leaves_is_never_let_in() -> None:
    seats, first, second = Seats(), Seat(1), Seat(1)
    seats.join(first)
    seats.join(second)
    seats.leave(first)
    seats.leave(first)
    assert seats.admit(None) == [second]
    assert (seats.running, seats.waiting) == (1, 0)


def test_choices_of_a_request_take_a_seat_each_but_a_large_request_runs_alone() -> None:
    seats, wide, narrow = Seats(), Seat(8), Seat(1)
    seats.join(wide)
    seats.join(narrow)
    assert seats.admit(4) == [wide]
    seats.leave(wide)
    assert seats.admit(4) == [narrow]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-sim-ttft-ms", "nan"),
        ("x-sim-itl-ms", "-1"),
        ("x-sim-tokens", "many"),
        ("x-sim-burst", "0"),
        ("x-sim-stamp", "2"),
        ("x-sim-script", "opera"),
        ("x-sim-script", "long_event:0"),
        ("x-sim-fault-rate", "1.5"),
    ],
)
def test_a_control_out_of_its_bounds_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        read_controls({name: value}, SETTINGS)


@pytest.mark.parametrize("change", [{"ttft_ms": -1}, {"tokens": 1.5}, {"model": ""}, {"jitter": 2}, {"nonsense": 1}])
def test_a_setting_out_of_its_bounds_is_refused_by_name(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        SETTINGS.changed(change)
