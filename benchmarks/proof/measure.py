"""What is measured, by the modules of `tokenlane bench`: bursts, levels, A against B, chat beside batch."""

import asyncio
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import uvloop

from app.bench.connection import Patience
from app.bench.load import Load
from app.bench.progress import Progress
from app.bench.result import Cell, Comparison, Run
from app.bench.session import Plan, Session, compare, run
from app.bench.target import Target, target
from app.bench.workload import Workload
from benchmarks.proof.book import Stamped, say
from benchmarks.proof.process import metric, own_variables, pinned

PATIENCE = Patience(first=120, gap=60)
IDLE_WITHIN = 20
"""Seconds in which an engine has to have ended what its clients left."""
TOKENS = "vllm:generation_tokens_total"
RUNNING = "vllm:num_requests_running"

T = TypeVar("T")


class Interrupted(Exception):
    """A signal came while something was measured."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What users ask: a workload without a seed, and how much of it.

    Args:
        model: as it is named in requests.
        endpoint: "completions" or "chat".
        prompt: words of a prompt, or several lengths in turn.
        tokens: of an answer.
        scale: of all numbers of requests and durations: 1 for figures, less for a try.
        extra: more fields of each body.
        to_the_end: ask with vLLM's `ignore_eos` for all tokens of an answer.
    """

    model: str
    endpoint: str = "completions"
    prompt: tuple[int, ...] = (512,)
    tokens: int = 128
    scale: float = 1.0
    extra: Mapping[str, Any] = field(default_factory=dict)
    to_the_end: bool = True

    def workload(self) -> Workload:
        """The workload with a seed that no cache has seen."""
        seed = secrets.randbelow(2**31)
        extra = dict(self.extra)
        return Workload(
            self.model,
            self.endpoint,
            self.prompt,
            max_tokens=self.tokens,
            ignore_eos=self.to_the_end,
            seed=seed,
            extra=extra,
        )

    def many(self, number: float, least: int = 1) -> int:
        """A number of requests, scaled."""
        return max(least, round(number * self.scale))

    def short(self, seconds: float) -> float:
        """A duration, scaled; at least a second."""
        return max(1.0, seconds * self.scale)

    def plan(self, *loads: Load, retries: int = 0) -> Plan:
        """The plan of a session."""
        return Plan(loads, self.workload(), {}, PATIENCE, retries)


def measured(work: Callable[[Session], Coroutine[None, None, T]]) -> T:
    """Runs a measurement on an event loop of its own; raises Interrupted after a signal."""
    session = Session(Progress(cast("Any", Stamped())))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(work(session))
    if session.stopped:
        raise Interrupted
    return result


def levels(where: Target, asked: Asked, *loads: Load) -> list[Cell]:
    """Each load in turn."""
    found: Run = measured(lambda session: run(session, where, asked.plan(*loads)))
    return found["cells"]


def burst(url: str, asked: Asked, users: int) -> Cell:
    """So many users who all ask once, at the same moment, with no warm-up."""
    return levels(target(url), asked, Load(concurrency=users, requests=users))[0]


def closed(asked: Asked, users: int, waves: float = 4, least: int = 8) -> Load:
    """Some waves of requests of a closed loop of users, after one request of each that is not measured."""
    return Load(concurrency=users, requests=max(users, asked.many(waves * users, least)), warmup=users)


def warm(url: str, asked: Asked, most: int) -> float:
    """Bursts of 1, 4, 16, ... up to `most` users, twice each, so that no shape is met first in a figure; seconds."""
    began = time.monotonic()
    short = replace(asked, tokens=min(asked.tokens, 16))
    users = 1
    while users < most:
        burst(url, short, users)
        users *= 4
    for _ in range(2):
        burst(url, asked, most)
    return time.monotonic() - began


def versus(a: Target, b: Target, asked: Asked, load: Load, rounds: int) -> Comparison:
    """B against A in turns."""
    return measured(lambda session: compare(session, {"A": a, "B": b}, asked.plan(load), rounds))


@dataclass(frozen=True, slots=True)
class Batch:
    """A closed loop of users nobody waits for.

    Args:
        url: whom they ask.
        lane: they ask for; None: no header.
        users: how many.
        asked: what; lengths of prompts and answers are spread around it, so that the users do not move in step.
        ramp: seconds they run before anything beside them is measured.
        cpus: for the process that asks.
    """

    url: str
    lane: str | None
    users: int
    asked: Asked
    ramp: float = 8
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Chat:
    """People who arrive as they like, in an open loop, beside the batch.

    Args:
        where: whom they ask.
        asked: what.
        rate: arrivals a second.
        seconds: for which they arrive.
        settle: seconds for which they have arrived beside the batch before: a pace needs them to find itself.
    """

    where: Target
    asked: Asked
    rate: float
    seconds: float
    settle: float = 0


def beside(chat: Chat, batch: Batch | None, engines: Sequence[str], log: Path) -> dict[str, Any]:
    """Chat while the batch runs; None: alone.

    Args:
        chat: the people.
        batch: the background.
        engines: URLs whose counters tell what was generated meanwhile.
        log: of the batch's process.

    Returns:
        `chat`: its cell. `batch`: the cell of the whole background, its ramp included. `batch_tokens_per_s`: generated
        for it while the chat was measured, as the engines count; None where they do not.
    """
    load = Load(rate=chat.rate, duration=chat.asked.short(chat.seconds), warmup=4)
    if batch is None:
        return {"users": 0, "chat": levels(chat.where, chat.asked, load)[0], "batch": None, "batch_tokens_per_s": None}
    process = _start(batch, (load.duration or 0) + chat.settle, log)
    try:
        time.sleep(batch.asked.short(batch.ramp))
        if chat.settle:
            levels(chat.where, chat.asked, Load(rate=chat.rate, duration=chat.asked.short(chat.settle)))
        before, began = _generated(engines), time.monotonic()
        cell = levels(chat.where, chat.asked, load)[0]
        after, seconds = _generated(engines), time.monotonic() - began
    finally:
        told = _stop(process)
    until_idle(engines)
    rate = None if before is None or after is None else (after - before) / seconds - cell["tokens_per_s"]
    return {"users": batch.users, "chat": cell, "batch": told, "batch_tokens_per_s": rate}


def until_idle(engines: Sequence[str]) -> None:
    """Waits until the engines run nothing, but not for ever: who left is ended by an engine within a step or two."""
    end = time.monotonic() + IDLE_WITHIN
    while any(metric(url, RUNNING) for url in engines):
        if time.monotonic() > end:
            say(f"an engine still runs something after {IDLE_WITHIN} s")
            return
        time.sleep(0.2)


def _generated(engines: Sequence[str]) -> float | None:
    counts = [metric(url, TOKENS) for url in engines]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _start(batch: Batch, measured_s: float, log: Path) -> "subprocess.Popen[str]":
    asked = batch.asked
    command = [
        *pinned(batch.cpus), sys.executable, "-m", "benchmarks.proof.background", batch.url,
        "--model", asked.model, "--endpoint", asked.endpoint, "--users", str(batch.users),
        "--prompt-tokens", str(asked.prompt[0]), "--max-tokens", str(asked.tokens),
        "--most-seconds", str(batch.ramp + measured_s + 150), "--body", json.dumps(dict(asked.extra)),
    ]  # fmt: skip
    command += ["--lane", batch.lane] if batch.lane else []
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=own_variables()
        )


def _stop(process: "subprocess.Popen[str]") -> dict[str, Any] | None:
    """Ends the batch; its cell, or None if it told nothing."""
    process.send_signal(signal.SIGTERM)
    try:
        out, _ = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    return cast("dict[str, Any]", json.loads(out)) if out.strip() else None
