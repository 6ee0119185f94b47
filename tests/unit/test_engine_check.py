"""What `tokenlane engine check` says, asked of the catalogue, against what vLLM 0.32.0 on CPU was seen to do.

`data/vllm-0.32.0-cpu.json` holds each line that was tried: whether the parser of vLLM took it, and whether an engine
started with it (as far as its configuration, or for real where that said more than the configuration).
"""

import json
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from app.engine.catalogue import as_json, from_probe, history, recorded
from app.engine.check import Report, check
from app.engine.finding import Finding, Level
from app.engine.line import options_of, spelt, words_of
from app.engine.parsers import ask_catalogue
from app.engine.rules import Facts
from app.engine.shape import from_config
from config.profiles import load, names

DATA = Path(__file__).parent / "data" / "vllm-0.32.0-cpu.json"
LINES = json.loads(DATA.read_text())
SMOLLM2 = from_config(
    {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    }
)
ON_CPU = Facts("cpu", SMOLLM2)
CATALOGUE = recorded()
HISTORY = history()


def judged(line: str, facts: Facts = ON_CPU) -> Report:
    words = line.split(" ", 1) if "{" in line else shlex.split(line)
    return check(words, partial(ask_catalogue, CATALOGUE), HISTORY, facts)


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["line"])
def test_a_line_starts_or_not_as_vllm_did(line: dict[str, object]) -> None:
    report = judged(str(line["line"]))
    assert report.ok is line["starts"], [str(finding) for finding in report.findings]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["line"])
def test_the_catalogue_takes_and_refuses_what_the_real_parser_did(line: dict[str, object]) -> None:
    text = str(line["line"])
    words = text.split(" ", 1) if "{" in text else text.split()
    (refusal,) = ask_catalogue(CATALOGUE, [words]).refusals
    assert (refusal is None) is line["parsed"], refusal


@pytest.mark.parametrize(
    ("line", "successor"),
    [
        ("--swap-space 4", "--kv-offloading-size"),
        ("--kv-cache-dtype fp16", "float16"),
        ("--speculative-model ngram", "--speculative-config"),
        ("--guided-decoding-backend xgrammar", "--structured-outputs-config.backend"),
        ("--max_num_partial_prefills 2", ""),
        ("--disable-log-requests", ""),
        ("--compilation-config 3", "-O3"),
        ("--gpu-memory-utilisation 0.9", "--gpu-memory-utilization"),
        ("--kv-offloading-backend cpu", "native"),
    ],
)
def test_what_is_gone_is_named_with_its_successor(line: str, successor: str) -> None:
    finding = only(judged(line))
    assert (finding.level, finding.successor) == (Level.ERROR, successor)


def test_every_successor_exists() -> None:
    for gone in HISTORY.options.values():
        name = gone.successor.partition(".")[0]
        assert not name or name in CATALOGUE.by_name, gone
    for option, values in HISTORY.values.items():
        assert not set(values) & set(CATALOGUE.by_name[f"--{option}"].choices or ())


def test_nothing_that_exists_is_called_gone() -> None:
    assert not {f"--{name}" for name in HISTORY.options} & CATALOGUE.by_name.keys()


def test_an_abbreviation_that_argparse_completes_is_pointed_out() -> None:
    first, second = judged("--num-gpu-blocks 12000", Facts("gpu")).findings
    assert (first.level, first.successor) == (Level.WARNING, "--num-gpu-blocks-override")
    assert second.level is Level.WARNING


def test_underscores_equal_signs_and_short_names_are_understood() -> None:
    for line in ("--block_size=24", "--block-size=24", "--block_size 24"):
        assert not judged(line).ok
    assert not judged("-tp 2").ok
    assert judged("-tp 3").ok


def test_a_block_size_is_judged_by_the_hardware() -> None:
    assert not judged("--block-size 16").ok
    assert judged("--block-size 16", Facts("gpu")).ok
    assert not judged("--block-size 8", Facts("gpu")).ok


def test_a_quantization_that_the_checkpoint_lacks_is_an_error_and_a_warning_where_the_model_is_unknown() -> None:
    assert not judged("--quantization awq").ok
    assert judged("--quantization awq", Facts("gpu")).findings[0].level is Level.WARNING
    assert judged("--quantization awq_marlin", Facts("gpu", replace(SMOLLM2, quantization="awq"))).findings == []


def test_every_mistake_of_a_line_is_named_not_the_first_alone() -> None:
    report = judged("--swap-space 4 --kv-cache-dtype fp16 --no-such-flag 1 --block-size 8", Facts("gpu"))
    assert [finding.option for finding in report.findings] == [
        "--swap-space 4",
        "--kv-cache-dtype fp16",
        "--no-such-flag 1",
        "--block-size 8",
    ]


def test_the_command_and_the_model_before_the_flags_are_left_out() -> None:
    text = "vllm serve openai/gpt-oss-20b --max-num-seqs 32 \\\n --override-generation-config '{\"temperature\": 0.5}'"
    assert words_of(text) == ["--max-num-seqs", "32", "--override-generation-config", '{"temperature": 0.5}']
    assert words_of("vllm serve model") == []


def test_a_negative_number_is_a_value() -> None:
    assert options_of(["--max-model-len", "-1", "-O3"]) == [["--max-model-len", "-1"], ["-O3"]]
    assert spelt(["-O3"]) == ("--optimization-level", ["3"])
    assert spelt(["-cc.mode=3"]) == ("-cc", [])


@pytest.mark.parametrize("name", names())
def test_every_profile_starts_as_far_as_the_catalogue_knows(name: str) -> None:
    profile = load(name)
    report = check(profile.arguments(), partial(ask_catalogue, CATALOGUE), HISTORY, Facts(profile.hardware))
    assert [finding for finding in report.findings if finding.level is not Level.NOTE] == []


def test_the_catalogue_survives_being_written() -> None:
    tree = json.loads(as_json(CATALOGUE))
    assert from_probe(tree["version"], tree["options"]) == CATALOGUE
