"""`tokenlane engine warmup` against the simulated engine."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from app.cli import main
from app.sim import SimEngine, SimSettings

COLD = SimSettings(ttft_ms=10, itl_ms=0.2, tokens=4, cold_ms=60, max_model_len=64)


async def warmup(*words: str) -> int:
    """The command in a thread, since it runs a loop of its own."""
    return await asyncio.get_running_loop().run_in_executor(None, partial(main, ["engine", "warmup", *words]))


async def test_it_warms_an_engine_and_prints_what_the_first_and_the_last_burst_waited(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with SimEngine(COLD) as engine:
        file = tmp_path / "warm.json"
        words = (
            engine.url + "/v1",
            "--concurrency",
            "4",
            "--prompt-tokens",
            "16",
            "--header",
            "Authorization=Bearer k",
        )
        assert await warmup(*words, "--json", str(file)) == 0
        assert engine.compiled == 3
        bodies = [json.loads(r.body) for r in engine.requests if r.path == "/v1/completions"]
        assert {len(body["prompt"]) for body in bodies} == {16, 56}
        assert {r.headers["authorization"] for r in engine.requests} == {"Bearer k"}
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "| at once | prompt tokens | bursts | TTFT p95 first ms | last ms |"
    assert "\n| 4 | 56 | " in captured.out
    assert "1 at once, 16 tokens: TTFT p95" in captured.err
    assert "steady after" in captured.err
    told = json.loads(file.read_text())
    assert (told["model"], told["outcome"], len(told["sizes"])) == ("gpt-oss-20b", "steady", 6)
    two = told["sizes"][1]
    assert (two["concurrency"], two["prompt_tokens"]) == (2, 16)
    assert two["ttft_p95_ms"][0] > 2 * two["ttft_p95_ms"][-1]


async def test_an_engine_without_completions_is_asked_by_way_of_chats(capsys: pytest.CaptureFixture[str]) -> None:
    async with SimEngine(COLD) as engine:
        assert await warmup(engine.url, "--concurrency", "1", "--model", "another") == 1
        asked = [r.path for r in engine.requests if r.method == "POST"]
        assert asked == ["/v1/completions", "/v1/chat/completions"]
        message = json.loads(engine.requests[-1].body)["messages"][0]["content"]
        assert len(message.split()) == 12
    assert "skipped: the engine has no endpoint that generates" in capsys.readouterr().err


async def test_an_engine_that_fails_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    async with SimEngine(COLD) as engine:
        engine.set(fault="status:500")
        assert await warmup(engine.url, "--concurrency", "1") == 1
    assert "failed: the engine answered 500" in capsys.readouterr().err


async def test_nobody_there_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert await warmup("http://127.0.0.1:1") == 1
    assert await warmup("nonsense") == 1
    assert "tokenlane: nonsense" in capsys.readouterr().err


async def test_a_folder_that_is_not_there_is_a_mistake_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=0.1)) as engine:
        words = ("--concurrency", "1", "--prompt-tokens", "4", "--longest-prompt", "0", "--json", "/nowhere/a.json")
        assert await warmup(engine.url, *words) == 1
    assert "tokenlane:" in capsys.readouterr().err
