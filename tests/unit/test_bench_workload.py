"""What is asked: lengths, shared beginnings, and prompts that no cache knows."""

import json

import pytest

from app.bench.workload import WORDS, Workload


def test_prompts_have_the_lengths_in_turn() -> None:
    work = Workload("m", prompt_tokens=(3, 9))
    assert [len(work.prompt("c", number).split()) for number in range(4)] == [3, 9, 3, 9]


def test_a_shared_prefix_is_the_same_in_every_cell_and_the_rest_in_none() -> None:
    work = Workload("m", prompt_tokens=(20,), shared_prefix=12)
    prompts = [work.prompt(cell, number).split() for cell in "ab" for number in range(3)]
    assert len({tuple(words[:12]) for words in prompts}) == 1
    assert len({tuple(words[12:]) for words in prompts}) == 6


def test_without_a_shared_prefix_prompts_differ_from_their_first_words_on() -> None:
    work = Workload("m", prompt_tokens=(64,))
    assert len({tuple(work.prompt("c", number).split()[:4]) for number in range(50)}) == 50


def test_a_seed_gives_the_same_prompts_again_and_another_one_others() -> None:
    assert Workload("m", seed=1).prompt("c", 5) == Workload("m", seed=1).prompt("c", 5)
    assert Workload("m", seed=1).prompt("c", 5) != Workload("m", seed=2).prompt("c", 5)


def test_words_are_short_and_each_is_there_once() -> None:
    assert len(set(WORDS)) == len(WORDS) > 256
    assert all(word.isascii() and word.islower() and len(word) <= 6 for word in WORDS)


def test_a_chat_body_asks_for_a_stream_with_its_usage() -> None:
    body = json.loads(Workload("m", max_tokens=7, ignore_eos=True, prompt_tokens=(2,)).body("c", 0))
    assert [message["role"] for message in body.pop("messages")] == ["user"]
    assert body == {
        "model": "m",
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


def test_a_completions_body_has_a_prompt_and_extra_fields_win() -> None:
    work = Workload("m", endpoint="completions", extra={"max_tokens": 1, "temperature": 0})
    body = json.loads(work.body("c", 0))
    assert body["prompt"] == work.prompt("c", 0)
    assert (body["max_tokens"], body["temperature"]) == (1, 0)
    assert "ignore_eos" not in body
    assert work.path == "/completions"


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "responses"},
        {"prompt_tokens": ()},
        {"prompt_tokens": (0,)},
        {"max_tokens": 0},
        {"prompt_tokens": (8, 64), "shared_prefix": 9},
        {"shared_prefix": -1},
    ],
)
def test_what_cannot_be_asked_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        Workload("m", **wrong)  # type: ignore[arg-type]
