"""The same model served by `transformers serve`, and the most users for whom the first token is quick."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import uvloop

from app.bench.client import Client
from app.bench.load import Load
from app.bench.outcome import NO_DONE, OK
from app.bench.result import Cell
from app.bench.runner import Runner
from app.bench.search import Search
from app.bench.session import passes
from app.bench.summary import cell
from app.bench.target import target
from benchmarks.proof.book import say
from benchmarks.proof.engine import Running
from benchmarks.proof.measure import PATIENCE, Asked
from benchmarks.proof.process import free_port, own_variables, running

ARCHITECTURES = {"llama": "LlamaForCausalLM"}
READY = 180


@contextmanager
def transformers_serve(python: Path, model: Path, folder: Path, *, batching: bool) -> Iterator[Running]:
    """`transformers serve` for as long as the block lasts; raises ProcessFailed.

    Args:
        python: of an environment with transformers and what its server needs: torch, fastapi, uvicorn, openai.
        model: folder of the model.
        folder: for its log, and for a view of the model whose config names its architecture.
        batching: its `--continuous-batching`, which is off by default.
    """
    view, port = named(model, folder / "model"), free_port()
    name = "transformers serve" + (", continuous batching" if batching else "")
    command: list[str | Path] = [
        python.with_name("transformers"),
        "serve",
        view,
        "--device",
        "cpu",
        "--dtype",
        "bfloat16",
    ]
    command += ["--port", str(port), *(["--continuous-batching"] if batching else [])]
    variables = own_variables(HF_HUB_OFFLINE="1", PYTHONPATH="")
    with running(name, command, log=folder / f"{name.replace(' ', '-')}.log", variables=variables) as process:
        took = process.until_ready(f"http://127.0.0.1:{port}/health", READY)
        yield Running(name, f"http://127.0.0.1:{port}", process, took)


def named(model: Path, view: Path) -> Path:
    """A folder that is the model, with a config that names its architecture, which this server wants to know."""
    view.mkdir(parents=True, exist_ok=True)
    for file in model.iterdir():
        link = view / file.name
        if not link.exists():
            link.symlink_to(file)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config.setdefault("architectures", [ARCHITECTURES[config["model_type"]]])
    (view / "config.json").unlink()
    (view / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return view


def asked_of(view: Path, asked: Asked) -> Asked:
    """The same asked of this server: it knows the model by its folder, and how to go on to the last token otherwise."""
    config = json.loads((view / "config.json").read_text(encoding="utf-8"))
    generation = {
        "min_new_tokens": asked.tokens,
        "eos_token_id": config["eos_token_id"],
        "pad_token_id": config.get("pad_token_id", config["eos_token_id"]),
    }
    return replace(asked, model=str(view), extra={"generation_config": json.dumps(generation)}, to_the_end=False)


def lenient(url: str, asked: Asked, load: Load) -> Cell:
    """A cell in which a stream that ends without `[DONE]` counts as good: `transformers serve` sends none."""

    async def measure() -> Cell:
        async with Client(target(url), PATIENCE) as client:
            record = await Runner(client, asked.workload()).measure("", load)
        record.outcomes = [replace(one, kind=OK) if one.kind == NO_DONE else one for one in record.outcomes]
        return cell(record)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


def most_users(url: str, asked: Asked, load: Load, most: int, limit_ms: float) -> tuple[Search, list[Cell]]:
    """The search of `tokenlane bench run --find-concurrency`, with lenient cells."""
    search, cells = Search(most=most), []
    while (level := search.level) is not None:
        told = lenient(url, asked, load.at(level))
        good = passes(told, limit_ms)
        say(f"{level} users: TTFT P95 {told['ttft_ms']['p95'] if told['ttft_ms'] else '-'} ms, {told['errors'] or ''}")
        search.tell(good=good)
        cells.append(told)
    return search, cells
