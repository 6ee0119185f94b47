"""Every endpoint with its official client, on real vLLM: what the small model can do is done, what it cannot is refused.

Chats and completions are in `test_answers`.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from openai import OpenAI
from openai.types import Batch

from tests.e2e.vllm.conftest import Engine, client_of, running_gateway
from tests.fakes.keys import new_key

pytestmark = pytest.mark.vllm

MODEL = "smollm2"
QUESTION = "What is the capital of France?"
MESSAGES: list[Any] = [{"role": "user", "content": QUESTION}]
ASKED: dict[str, Any] = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 12}
GREEDY = {"temperature": 0}
OWN = {"id", "created_at", "completed_at"}
"""What differs between two answers to the same request."""

LINES = 10


def without_ids(response: Any) -> dict[str, Any]:
    """A response but for what is random in it."""
    told: dict[str, Any] = response.model_dump(exclude=OWN)
    for item in told["output"]:
        item.pop("id")
    return told


@pytest.fixture(scope="session")
def claude(gateway: str) -> Iterator[anthropic.Anthropic]:
    """Anthropic's official client in front of the gateway."""
    with anthropic.Anthropic(base_url=gateway, api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture
def straight(engines: dict[str, Engine]) -> Iterator[anthropic.Anthropic]:
    """The same, straight to the engine."""
    url = engines["lowlatency"].url
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=120) as client:
        yield client


class TestResponses:
    """OpenAI's responses; these engines keep them."""

    def test_a_whole_one_is_the_engine_s_own(self, client: OpenAI, engines: dict[str, Engine]) -> None:
        direct = without_ids(engines["lowlatency"].client().responses.create(**ASKED))

        assert without_ids(client.responses.create(**ASKED)) == direct
        assert direct["usage"]["output_tokens"] > 0

    def test_a_stream_assembles_to_what_the_engine_sent(self, client: OpenAI, engines: dict[str, Engine]) -> None:
        def streamed(source: OpenAI) -> tuple[list[str], dict[str, Any]]:
            with source.responses.stream(**ASKED) as stream:
                kinds: list[str] = [event.type for event in stream]
                return kinds, without_ids(stream.get_final_response())

        assert streamed(client) == streamed(engines["lowlatency"].client())

    def test_one_that_is_kept_is_had_again_whole_and_as_its_engine_has_it(self, client: OpenAI) -> None:
        kept = client.responses.create(**ASKED, extra_headers={"X-Tokenlane-Lane": "batch"})

        assert client.responses.retrieve(kept.id).output_text == kept.output_text != ""

    def test_one_goes_on_where_the_one_before_is_kept(self, client: OpenAI, engines: dict[str, Engine]) -> None:
        first = client.responses.create(**ASKED, extra_headers={"X-Tokenlane-Lane": "batch"})
        raw = client.responses.with_raw_response.create(**ASKED, previous_response_id=first.id)

        assert raw.headers["x-tokenlane-lane"] == "batch"
        assert raw.parse().previous_response_id == first.id

    def test_one_in_the_background_is_cancelled(self, client: OpenAI) -> None:
        running = client.responses.create(**ASKED | {"max_output_tokens": 1500}, background=True)
        assert running.status in {"queued", "in_progress"}

        assert client.responses.cancel(running.id).status == "cancelled"
        assert client.responses.retrieve(running.id).status == "cancelled"

    def test_one_that_was_not_in_the_background_cannot_be_cancelled_says_the_engine(self, client: OpenAI) -> None:
        kept = client.responses.create(**ASKED)
        with pytest.raises(openai.BadRequestError):
            client.responses.cancel(kept.id)

    def test_one_that_no_engine_keeps_is_not_there(self, client: OpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as caught:
            client.responses.retrieve("resp_00000000000000000000000000000000")
        assert caught.value.code == "response_not_found"


class TestMessages:
    """Anthropic's messages."""

    def test_a_whole_one_is_the_engine_s_own(self, claude: anthropic.Anthropic, straight: anthropic.Anthropic) -> None:
        asked: dict[str, Any] = {"model": MODEL, "max_tokens": 12, "messages": MESSAGES, "extra_body": GREEDY}
        direct = straight.messages.create(**asked).model_dump(exclude={"id"})

        assert claude.messages.create(**asked).model_dump(exclude={"id"}) == direct
        assert direct["content"][0]["text"]

    def test_a_stream_assembles_to_what_the_engine_sent(
        self, claude: anthropic.Anthropic, straight: anthropic.Anthropic
    ) -> None:
        def streamed(source: anthropic.Anthropic) -> dict[str, Any]:
            with source.messages.stream(model=MODEL, max_tokens=12, messages=MESSAGES, extra_body=GREEDY) as stream:
                return stream.get_final_message().model_dump(exclude={"id"})

        assert streamed(claude) == streamed(straight)

    def test_tokens_are_counted(self, claude: anthropic.Anthropic, straight: anthropic.Anthropic) -> None:
        counted = claude.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens

        assert counted == straight.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens > 5

    def test_a_model_that_no_engine_serves_is_anthropic_s_404(self, claude: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.NotFoundError) as caught:
            claude.messages.create(model="none", max_tokens=1, messages=MESSAGES)
        assert "none" in caught.value.message


def test_a_completion_in_one_piece_is_the_engine_s_own(client: OpenAI, engines: dict[str, Engine]) -> None:
    def completed(source: OpenAI) -> dict[str, Any]:
        answer = source.completions.create(model=MODEL, prompt="One two three", max_tokens=8, temperature=0, echo=True)
        return answer.model_dump(exclude={"id", "created"})

    assert completed(client) == completed(engines["lowlatency"].client())


def test_a_model_is_found_by_its_name(client: OpenAI, engines: dict[str, Engine]) -> None:
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_a_text_is_split_into_tokens_and_put_together_again(client: OpenAI, engines: dict[str, Engine]) -> None:
    def posted(source: OpenAI, path: str, **body: Any) -> dict[str, Any]:
        url = f"{str(source.base_url).removesuffix('/v1/')}{path}"
        answer: dict[str, Any] = source.post(url, body={"model": MODEL, **body}, cast_to=dict[str, Any])
        return answer

    tokens = posted(client, "/tokenize", prompt=QUESTION)
    assert tokens == posted(engines["lowlatency"].client(), "/tokenize", prompt=QUESTION)
    assert posted(client, "/detokenize", tokens=tokens["tokens"])["prompt"].endswith(QUESTION)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "hi"}),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}),
        ("/rerank", {"query": "a", "documents": ["b"]}),
        ("/v2/rerank", {"query": "a", "documents": ["b"]}),
        ("/v1/score", {"text_1": "a", "text_2": "b"}),
        ("/score", {"text_1": "a", "text_2": "b"}),
    ],
)
def test_what_a_model_that_generates_cannot_do_is_refused_in_a_shape_that_clients_read(
    client: OpenAI, path: str, body: dict[str, Any]
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.post(f"{str(client.base_url).removesuffix('/v1/')}{path}", body={"model": MODEL, **body}, cast_to=object)
    assert 400 <= caught.value.status_code < 500
    assert caught.value.body is not None
    assert {"message", "type", "code"} <= set(caught.value.body)  # type: ignore[call-overload]  # the client's `object`


def test_a_batch_of_ten_lines_runs_beside_a_chat(client: OpenAI) -> None:
    rows = [
        {
            "custom_id": f"line-{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": MODEL, "messages": [{"role": "user", "content": f"Say {n}"}], "max_tokens": 4},
        }
        for n in range(LINES)
    ]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    chat = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=4)
    batch = ended(client, batch)

    assert chat.usage is not None
    assert (batch.status, batch.error_file_id, batch.model) == ("completed", None, MODEL)
    assert batch.usage is not None
    assert 0 < batch.usage.output_tokens <= 4 * LINES
    output = [json.loads(line) for line in client.files.content(str(batch.output_file_id)).text.splitlines()]
    assert [line["custom_id"] for line in output] == [f"line-{n}" for n in range(LINES)]
    assert {line["response"]["body"]["object"] for line in output} == {"chat.completion"}
    assert client.files.delete(file.id).deleted


def ended(client: OpenAI, batch: Batch) -> Batch:
    """The batch once it is over."""
    deadline = time.monotonic() + 60
    while batch.status not in {"completed", "failed", "expired", "cancelled"}:
        assert time.monotonic() < deadline, batch
        time.sleep(0.2)
        batch = client.batches.retrieve(batch.id)
    return batch


def test_a_response_of_one_key_is_not_there_for_another(engines: dict[str, Engine], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    secrets = [asyncio.run(new_key(tmp_path / "data", name))[1] for name in ("one", "two")]
    lanes = {f"TOKENLANE_LANES__{lane.upper()}__ENGINES": json.dumps([e.url]) for lane, e in engines.items()}
    with running_gateway(lanes, tmp_path) as url:
        one, two = (client_of(url).with_options(api_key=secret) for secret in secrets)
        kept = one.responses.create(**ASKED)
        assert one.responses.retrieve(kept.id).output_text == kept.output_text
        assert one.responses.create(**ASKED, previous_response_id=kept.id).previous_response_id == kept.id
        for ask in (two.responses.retrieve, two.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                ask(kept.id)
        with pytest.raises(openai.NotFoundError):
            two.responses.create(**ASKED, previous_response_id=kept.id)
