"""The simulator's bodies against recorded ones of vLLM 0.32: every key, its place, its type, and every null."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from app.sim.jobs import Circumstances, make_job, read_request
from app.sim.pages import models_page, tokenize_page
from app.sim.refusals import Refused, busy
from app.sim.settings import SimSettings
from app.sim.steps import Part, Step

TRACES = Path(__file__).parent.parent / "traces"
SETTINGS = SimSettings(model="smollm2", max_model_len=2048)
GIVEN = Circumstances(ordinal=1, now=1_800_000_000.0, answer_id="0" * 16, close=False)

STREAMS: dict[str, dict[str, str]] = {
    "chat_stream_basic": {"x-sim-tokens": "7"},
    "chat_stream_include_usage": {"x-sim-tokens": "7"},
    "chat_stream_max_tokens_1": {},
    "chat_stream_max_completion_tokens_3": {},
    "chat_stream_return_token_ids": {"x-sim-tokens": "7"},
    "chat_stream_logprobs": {"x-sim-tokens": "7"},
    "chat_stream_logprobs_no_top": {"x-sim-tokens": "7"},
    "chat_stream_return_tokens_as_token_ids": {},
    "chat_stream_empty_eos_first_logprobs": {"x-sim-tokens": "0"},
    "chat_stream_stop_string": {},
    "chat_stream_stop_string_included": {},
    "chat_stream_stop_string_logprobs_token_ids": {},
    "chat_n2_include_usage_continuous": {},
    "chat_stream_tools_named": {},
    "chat_stream_tools_required": {},
    "chat_stream_tools_auto_one": {},
    "chat_stream_tools_auto_text_then_two": {"x-sim-script": "two_tools"},
    "chat_stream_tools_auto_logprobs_token_ids": {"x-sim-script": "tools"},
    "reasoning_qwen3_stream_tools": {"x-sim-reasoning": "5", "x-sim-script": "two_tools"},
    "reasoning_deepseek_r1_stream_cut_in_reasoning": {"x-sim-reasoning": "50"},
    "reasoning_deepseek_r1_stream_include_reasoning_false": {"x-sim-reasoning": "5", "x-sim-tokens": "6"},
    "reasoning_deepseek_r1_stream_interval_5": {"x-sim-reasoning": "12", "x-sim-tokens": "12"},
    "reasoning_deepseek_r1_stream_logprobs_token_ids": {"x-sim-reasoning": "5", "x-sim-tokens": "6"},
    "stream_interval_4_chat_basic": {},
    "stream_interval_4_chat_continuous_usage": {},
    "stream_interval_4_chat_logprobs_token_ids": {},
    "stream_interval_4_completions": {},
    "completions_stream": {},
    "completions_stream_include_usage": {},
    "completions_stream_continuous_usage": {},
    "completions_stream_echo": {},
    "completions_stream_echo_logprobs": {},
    "completions_stream_echo_max_tokens_0": {},
    "completions_stream_max_tokens_1": {},
    "completions_stream_two_prompts": {},
}
CHANGES: dict[str, dict[str, Any]] = {"chat_stream_stop_string_logprobs_token_ids": {"stop": ["ulated engine"]}}
WHOLES: dict[str, dict[str, str]] = {
    "chat_nonstream": {"x-sim-tokens": "7"},
    "chat_nonstream_n2": {"x-sim-tokens": "7"},
    "chat_nonstream_logprobs": {},
    "chat_nonstream_return_token_ids": {"x-sim-tokens": "7"},
    "chat_nonstream_tools_auto_two": {"x-sim-script": "two_tools"},
    "chat_nonstream_tools_required": {},
    "error_best_of": {},
}
ERRORS = sorted(path.name for path in TRACES.glob("error_*") if path.name != "error_best_of")


def recorded(case: str, name: str) -> Any:
    return orjson.loads((TRACES / case / name).read_bytes())


def steps(case: str, headers: dict[str, str]) -> list[Step]:
    request = recorded(case, "request.json")
    body = orjson.dumps(request["body"] | CHANGES.get(case, {}))
    interval = 4 if case.startswith("stream_interval_4") else 1
    settings = SETTINGS.changed({"stream_interval": interval})
    headers = {"content-type": "application/json"} | headers
    asked, controls = read_request(request["path"], body, headers, settings)
    return list(make_job(asked, controls, headers, settings, GIVEN).plan.during)


def shape(value: object) -> object:
    """Keys in order, types, nulls; of lists the kinds of elements. Top logprobs of completions are keyed by tokens."""
    if isinstance(value, dict):
        if value and all(isinstance(one, float) for one in value.values()):
            return "token: logprob"
        return tuple((key, shape(one)) for key, one in value.items())
    if isinstance(value, list):
        return "[]", frozenset(shape(one) for one in value)
    return type(value).__name__


def shapes(events: list[bytes]) -> set[object]:
    return {shape(orjson.loads(event.removeprefix(b"data: "))) for event in events if event.startswith(b"data: {")}


def without_details(value: object) -> object:
    """Details of usage depend on flags of the server that was recorded."""
    if isinstance(value, tuple):
        return tuple(
            without_details(one)
            for one in value
            if not (isinstance(one, tuple) and one and one[0] in {"prompt_tokens_details", "completion_tokens_details"})
        )
    return frozenset(map(without_details, value)) if isinstance(value, frozenset) else value


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_has_the_chunks_of_the_recorded_one(case: str) -> None:
    theirs = shapes((TRACES / case / "body.sse").read_bytes().strip().split(b"\n\n"))
    ours = shapes([step.data.strip() for step in steps(case, STREAMS[case]) if step.data])
    if case.startswith("stream_interval") or "reasoning" in case:
        theirs, ours = set(map(without_details, theirs)), set(map(without_details, ours))
    assert ours == theirs


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_is_written_as_compactly_as_the_recorded_one(case: str) -> None:
    for step in steps(case, STREAMS[case]):
        if step.data and step.part is not Part.DONE:
            assert step.data == b"data: " + orjson.dumps(orjson.loads(step.data[6:])) + b"\n\n"


@pytest.mark.parametrize("case", WHOLES)
def test_a_whole_answer_has_the_keys_of_the_recorded_one(case: str) -> None:
    body = next(step.data for step in steps(case, WHOLES[case]) if step.part is Part.BODY)
    assert shape(orjson.loads(body)) == shape(recorded(case, "body.json"))


def test_reasoning_that_fills_the_answer_leaves_content_null() -> None:
    case = "reasoning_qwen3_input_reasoning_field"
    body = next(step.data for step in steps(case, {"x-sim-reasoning": "50"}) if step.part is Part.BODY)
    ours, theirs = orjson.loads(body), recorded(case, "body.json")
    assert without_details(shape(ours)) == without_details(shape(theirs))
    assert ours["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize("case", ERRORS)
def test_a_refusal_has_the_words_of_the_recorded_one(case: str) -> None:
    request, expected = recorded(case, "request.json"), (TRACES / case / "body.json").read_bytes()
    raw = request["body_raw"].encode() if "body_raw" in request else orjson.dumps(request["body"])
    kind = request["headers"]["Content-Type"]
    refused: Refused = busy()
    if "503" not in case:
        with pytest.raises(Refused) as caught:
            read_request(request["path"], raw, {"content-type": kind}, SETTINGS)
        refused = caught.value
    assert orjson.dumps(refused.body) == expected
    assert refused.status == orjson.loads(expected)["error"]["code"]


def test_the_list_of_models_has_the_keys_of_the_recorded_one() -> None:
    assert shape(orjson.loads(models_page(SETTINGS, 1).body)) == shape(recorded("get_models", "body.json"))


def test_tokens_of_a_text_are_told_as_recorded() -> None:
    body = orjson.dumps(recorded("tokenize_prompt", "request.json")["body"])
    page = tokenize_page(body, {"content-type": "application/json"}, SETTINGS)
    assert shape(orjson.loads(page.body)) == shape(recorded("tokenize_prompt", "body.json"))
