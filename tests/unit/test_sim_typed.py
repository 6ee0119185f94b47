"""The simulator's responses and messages against recorded ones of vLLM 0.32: every event, key, type and null."""

from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.sim.jobs import Circumstances, make_job, read_request
from app.sim.pages import count_page
from app.sim.pooling import embeddings_page, likeness, rerank_page, score_page, vector
from app.sim.refusals import Refused, as_message
from app.sim.settings import SimSettings
from app.sim.steps import Act, Part, Step
from app.sim.stored import KEPT, StoredResponses

TRACES = Path(__file__).parent.parent / "traces"
SETTINGS = SimSettings(model="smollm2", max_model_len=2048)
STREAMS: dict[str, dict[str, str]] = {
    "responses_stream": {"x-sim-tokens": "7"},
    "responses_stream_store": {"x-sim-tokens": "7"},
    "responses_stream_max_tokens": {},
    "reasoning_qwen3_responses_stream": {"x-sim-tokens": "7", "x-sim-reasoning": "7"},
    "messages_stream": {"x-sim-tokens": "7"},
    "keepalive_messages": {"x-sim-reasoning": "7"},
}
JSON = {"content-type": "application/json"}


def recorded(case: str, name: str) -> Any:
    return orjson.loads((TRACES / case / name).read_bytes())


def given(path: str) -> Circumstances:
    return Circumstances(ordinal=1, now=1_800_000_000.0, answer_id="0" * 16, close=False, path=path)


def steps(path: str, body: Any, headers: dict[str, str]) -> list[Step]:
    asked, controls = read_request(path, orjson.dumps(body), JSON | headers, SETTINGS)
    plan = make_job(asked, controls, headers, SETTINGS, given(path)).plan
    return [*plan.before, *plan.during]


def events(raw: bytes) -> list[tuple[str, Any]]:
    """Name and JSON of each event."""
    blocks = [block.split(b"\n") for block in raw.strip().split(b"\n\n")]
    return [(name.decode().removeprefix("event: "), orjson.loads(data[6:])) for name, data in blocks]


def spoken(path: str, body: Any, headers: dict[str, str]) -> list[tuple[str, Any]]:
    return events(b"".join(step.data for step in steps(path, body, headers) if step.act is Act.EVENT))


def shape(value: object) -> object:
    """Keys in order, types and nulls; of lists the kinds of elements."""
    if isinstance(value, dict):
        return tuple((key, shape(one)) for key, one in value.items())
    if isinstance(value, list):
        return "[]", frozenset(shape(one) for one in value)
    return type(value).__name__


def whole(path: str, body: Any, headers: dict[str, str]) -> Any:
    return orjson.loads(next(step.data for step in steps(path, body, headers) if step.part is Part.BODY))


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_has_the_events_of_the_recorded_one_in_their_order(case: str) -> None:
    request = recorded(case, "request.json")
    ours = spoken(request["path"], request["body"], STREAMS[case])
    theirs = events((TRACES / case / "body.sse").read_bytes())
    assert [name for name, _ in groupby(name for name, _ in ours)] == [
        name for name, _ in groupby(name for name, _ in theirs)
    ]
    if case != "keepalive_messages":  # which was recorded on a server that does not tell cached tokens
        assert {name: shape(body) for name, body in ours} == {name: shape(body) for name, body in theirs}


@pytest.mark.parametrize("case", ["responses_nonstream", "messages_nonstream"])
def test_a_whole_answer_has_the_keys_of_the_recorded_one(case: str) -> None:
    request = recorded(case, "request.json")
    ours = whole(request["path"], request["body"], {"x-sim-tokens": "7"})
    assert shape(ours) == shape(recorded(case, "body.json"))


def test_the_events_of_a_response_are_numbered_without_a_gap_and_end_with_the_whole_answer() -> None:
    body = {"input": "hi", "tools": [{"type": "function", "name": "f", "parameters": {}}]}
    told = spoken("/v1/responses", {**body, "stream": True}, {"x-sim-script": "two_tools", "x-sim-reasoning": "5"})
    assert [event["sequence_number"] for _, event in told] == list(range(len(told)))
    assert all(name == event["type"] for name, event in told)
    last = told[-1][1]["response"]
    assert [item["type"] for item in last["output"]] == ["reasoning", "message", "function_call", "function_call"]
    unstreamed = whole("/v1/responses", body, {"x-sim-script": "two_tools", "x-sim-reasoning": "5"})
    assert unstreamed["output"] == last["output"]


def test_a_message_that_calls_a_tool_stops_for_it() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 99}
    body["tools"] = [{"name": "f", "input_schema": {"properties": {"city": {"type": "string"}}}}]
    told = spoken("/v1/messages", {**body, "stream": True}, {})
    pieces = [e["delta"]["partial_json"] for n, e in told if n == "content_block_delta"]
    assert orjson.loads("".join(pieces)) == {"city": "Paris"}
    assert told[-2][1]["delta"]["stop_reason"] == "tool_use"
    (block,) = whole("/v1/messages", body, {})["content"]
    assert (block["type"], block["input"]) == ("tool_use", {"city": "Paris"})


@pytest.mark.parametrize("case", ["messages_error_unknown_model", "messages_error_context_too_long"])
def test_a_refusal_of_a_message_has_the_words_of_the_recorded_one(case: str) -> None:
    request = recorded(case, "request.json")
    with pytest.raises(Refused) as refused:
        read_request(request["path"], orjson.dumps(request["body"]), JSON, SETTINGS)
    ours, theirs = as_message(refused.value.body), recorded(case, "body.json")
    assert shape(ours) == shape(theirs)
    assert ours["error"]["type"] == theirs["error"]["type"]


def test_tokens_of_a_message_are_counted_as_recorded() -> None:
    request = recorded("messages_count_tokens", "request.json")
    page = count_page(orjson.dumps(request["body"]), JSON, SETTINGS)
    assert shape(orjson.loads(page.body)) == shape(recorded("messages_count_tokens", "body.json"))


class TestStoredResponses:
    """What an engine keeps, by time."""

    def kept(self, **more: Any) -> tuple[StoredResponses, Any]:
        stored = StoredResponses()
        body = orjson.dumps({"input": "hi", **more})
        asked, controls = read_request("/v1/responses", body, {**JSON, "x-sim-ttft-ms": "1000"}, SETTINGS)
        return stored, stored.add(asked, controls, SETTINGS, given("/v1/responses"))

    def test_a_response_is_in_progress_until_its_time_is_over(self) -> None:
        stored, shown = self.kept()
        assert shown["status"] == "in_progress"
        assert stored.show(shown["id"], 1_800_000_000.5)["output"] == []
        assert stored.show(shown["id"], 1_800_000_100.0)["status"] == "completed"

    def test_only_what_runs_in_the_background_can_be_cancelled(self) -> None:
        stored, shown = self.kept()
        with pytest.raises(Refused):
            stored.cancel(shown["id"], 1_800_000_000.5)
        stored, shown = self.kept(background=True)
        assert stored.cancel(shown["id"], 1_800_000_000.5)["status"] == "cancelled"
        assert stored.show(shown["id"], 1_800_000_100.0)["status"] == "cancelled"

    def test_what_is_not_kept_is_refused_in_the_recorded_words(self) -> None:
        stored, shown = self.kept(store=False)
        for response_id in (shown["id"], "resp_123"):
            with pytest.raises(Refused) as refused:
                stored.show(response_id, 0.0)
        assert refused.value.body == recorded("get_responses_unknown_id", "body.json")

    def test_only_the_last_ones_are_kept(self) -> None:
        stored = StoredResponses()
        ids = []
        for number in range(KEPT + 1):
            body = orjson.dumps({"input": "hi", "max_output_tokens": 1, "request_id": str(number)})
            asked, controls = read_request("/v1/responses", body, JSON, SETTINGS)
            ids.append(stored.add(asked, controls, SETTINGS, given("/v1/responses"))["id"])
        assert stored.show(ids[-1], 0.0)
        with pytest.raises(Refused):
            stored.show(ids[0], 0.0)


def test_vectors_and_scores_depend_on_the_texts_alone() -> None:
    assert vector("a") == vector("a") != vector("b")
    assert sum(number * number for number in vector("a", 300)) == pytest.approx(1)
    assert likeness("a", "a") == pytest.approx(1)


def test_documents_come_in_the_order_of_their_scores() -> None:
    body = orjson.dumps({"query": "b", "documents": ["a", "b", "c"], "top_n": 2})
    results = orjson.loads(rerank_page(body, JSON, SETTINGS, "1").body)["results"]
    assert len(results) == 2
    assert results[0]["document"]["text"] == "b"
    assert results[0]["relevance_score"] > results[1]["relevance_score"]


@pytest.mark.parametrize(
    "body",
    [{}, {"input": []}, {"input": 7}, {"input": "a", "model": "nope"}, {"input": "a", "dimensions": 0}],
)
def test_an_embedding_of_nothing_is_refused(body: Any) -> None:
    with pytest.raises(Refused):
        embeddings_page(orjson.dumps(body), JSON, SETTINGS, 1, "1")


def test_texts_are_scored_one_to_many_or_pair_by_pair() -> None:
    def count(one: Any, two: Any) -> int:
        page = score_page(orjson.dumps({"text_1": one, "text_2": two}), JSON, SETTINGS, 1, "1")
        return len(orjson.loads(page.body)["data"])

    assert (count("a", ["b", "c"]), count(["a", "b"], ["c", "d"])) == (2, 2)
    with pytest.raises(Refused):
        count(["a", "b"], ["c", "d", "e"])
