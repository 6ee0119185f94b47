"""What the engine refuses arrives as the engine said it."""

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.vllm.conftest import Engine

pytestmark = pytest.mark.vllm

TOO_LONG: list[ChatCompletionMessageParam] = [{"role": "user", "content": "word " * 3000}]


@pytest.mark.parametrize("stream", [False, True])
def test_a_context_that_is_too_long_is_the_engine_s_own_400(
    client: OpenAI, engines: dict[str, Engine], stream: bool
) -> None:
    def refusal(source: OpenAI) -> openai.BadRequestError:
        with pytest.raises(openai.BadRequestError) as caught:
            source.chat.completions.create(model="smollm2", messages=TOO_LONG, stream=stream)
        return caught.value

    through, direct = refusal(client), refusal(engines["lowlatency"].client())
    assert through.body == direct.body
    assert "2048" in through.message


def test_a_grammar_that_the_engine_cannot_read_is_a_true_400_although_the_engine_streams_it(
    client: OpenAI, engines: dict[str, Engine]
) -> None:
    # vLLM answers 200 and sends an error event
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            extra_body={"structured_outputs": {"regex": "(["}},
        )
    assert "regex" in caught.value.message.lower()


def test_a_value_out_of_range_is_the_engine_s_own_400(client: OpenAI, engines: dict[str, Engine]) -> None:
    def refusal(source: OpenAI) -> object:
        with pytest.raises(openai.BadRequestError) as caught:
            source.chat.completions.create(
                model="smollm2", messages=[{"role": "user", "content": "hi"}], temperature=-1
            )
        return caught.value.body

    assert refusal(client) == refusal(engines["lowlatency"].client())


def test_a_model_that_no_engine_serves_is_a_404_that_names_it(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-none", messages=[{"role": "user", "content": "hi"}])
    assert "gpt-none" in caught.value.message


@pytest.mark.parametrize("path", ["/metrics-of-an-engine", "/abort_requests", "/sleep", "/load", "/server_info"])
def test_no_control_route_of_the_engine_can_be_reached(client: OpenAI, path: str) -> None:
    with pytest.raises(openai.NotFoundError):
        client.post(f"{str(client.base_url).removesuffix('/v1/')}{path}", cast_to=object)
