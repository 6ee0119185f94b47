"""What is measured on engines that run: each step writes its figures to the book at once."""

import argparse
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.bench.result import Comparison
from app.bench.target import Target, target
from benchmarks.proof.book import Book, say
from benchmarks.proof.engine import Flags, Launcher, Place, Running
from benchmarks.proof.gateway import Gateway, Settings, serving, split
from benchmarks.proof.measure import Asked, Batch, Chat, beside, burst, closed, levels, versus, warm
from benchmarks.proof.process import TOKENLANE, ProcessFailed, own_variables

WIDE = 512
"""Slots of a gateway that is to limit nothing."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which CPUs whom: engines, a gateway, the batch's client, the client that is measured. None: no matter."""

    engine: tuple[int, ...] = ()
    gateway: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    client: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """What every step needs.

    Args:
        options: of the command line; its names are those of `gpu.parser` or `cpu.parser`.
        book: gets the figures.
        launcher: starts engines.
        cores: which processes run on which.
        deadline: on the clock of `time.time`, after which no step begins.
        asked: what is asked for unless a step says else.
    """

    options: argparse.Namespace
    book: Book
    launcher: Launcher
    cores: Cores
    deadline: float
    asked: Asked

    @property
    def folder(self) -> Path:
        return self.launcher.logs

    @property
    def session(self) -> str:
        """What the names of engines begin with, where several sessions have one of that name."""
        return f"{name}: " if (name := getattr(self.options, "session", None)) else ""

    def wants(self, step: str) -> bool:
        """Whether a step was asked for."""
        return step in self.options.steps

    def step(self, name: str, seconds: float, work: Callable[[], object]) -> None:
        """Does a step that was asked for, if so many seconds (at scale 1) are left; what fails is noted."""
        if not self.wants(name):
            return
        left = self.deadline - time.time()
        if left < seconds * min(1.0, self.asked.scale):
            self.book.problem(name, f"skipped: {left:.0f} s are left, {seconds:.0f} are needed")
            return
        say(f"step {name}, about {seconds:.0f} s")
        try:
            work()
        except (ProcessFailed, OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
            self.book.problem(name, error)

    def place(self, gpu: int | None, caches: str) -> Place:
        """A place on a card; `caches` names the folder of what is compiled."""
        return Place(gpu, self.cores.engine, self.options.caches / caches if self.options.caches else None)

    def gateway(self, settings: Settings, name: str, stack: ExitStack) -> Gateway:
        """A gateway until the stack is closed."""
        given = dict(pair.split("=", 1) for pair in self.options.gateway_set)
        log = self.folder / f"gateway-{name}.log"
        return stack.enter_context(serving({**settings, **given}, log=log, cpus=self.cores.gateway))

    def note(self, engine: Running, flags: Flags) -> None:
        """Notes how an engine was started."""
        say(f"{engine.name} is up after {engine.start_s:.0f} s; flags left out: {' '.join(flags.dropped) or 'none'}")
        self.book.add(
            "engines",
            {
                "name": f"{self.session}{engine.name}",
                "start_s": engine.start_s,
                "flags": flags.words,
                "dropped": flags.dropped,
            },
        )


def bursts(bench: Bench, engine: Running, start: str, warmup_s: float, turns: int = 1) -> None:
    """The first bursts after a start; each again if there are more turns."""
    for turn in range(1, turns + 1):
        for users in bench.options.bursts:
            cell = burst(engine.url, bench.asked, bench.asked.many(users, 2))
            entry = {"start": start, "start_s": engine.start_s, "warmup_s": warmup_s, "turn": turn, "users": users}
            bench.book.add("bursts", {**entry, "cell": cell})


def singles(bench: Bench, engine: Running, count: int = 3) -> float:
    """Three requests, one after another; returns the seconds they took."""
    began = time.monotonic()
    for _ in range(count):
        burst(engine.url, bench.asked, 1)
    return time.monotonic() - began


def warmed_up(bench: Bench, engine: Running, users: int, most_seconds: float = 150) -> float:
    """`tokenlane engine warmup`; returns the seconds it took. Raises ProcessFailed if it fails."""
    told = bench.folder / f"warmup-{engine.name}.json"
    command = [
        *TOKENLANE, "engine", "warmup", engine.url, "--model", bench.asked.model, "--concurrency", str(users),
        "--prompt-tokens", "16,512", "--max-seconds", str(most_seconds), "--json", str(told.resolve()),
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(
        command, env=own_variables(), capture_output=True, text=True, timeout=most_seconds + 90, check=False
    )
    seconds = time.monotonic() - began
    say(f"warm-up: {seconds:.1f} s, exit status {done.returncode}")
    if done.returncode != 0:
        raise ProcessFailed(f"engine warmup: {(done.stderr or done.stdout)[-800:]}")
    return seconds


def rows(bench: Bench, engine: Running, profile: str) -> None:
    """A profile at each level, warm."""
    say(f"warm after {warm(engine.url, bench.asked, bench.asked.many(max(bench.options.levels), 2)):.1f} s")
    for users in bench.options.levels:
        load = closed(bench.asked, users, 3 if users > 1 else 12)
        cell = levels(target(engine.url), bench.asked, load)[0]
        bench.book.add("rows", {"profile": profile, "users": users, "cell": cell})


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Who answers whom while chat and batch run side by side.

    Args:
        name: of it in the results.
        chat: whom people ask.
        batch: URL that the batch asks.
        lane: that the batch asks for.
        engines: URLs of all engines.
        paced: whether the batch has to find its pace before anything is measured.
    """

    name: str
    chat: Target
    batch: str
    lane: str | None
    engines: tuple[str, ...]
    paced: bool = False


def side_by_side(bench: Bench, how: Arrangement, users: Sequence[int]) -> None:
    """Chat alone (0 users) or beside so many users of a batch.

    Args:
        bench: of the session.
        how: the arrangement.
        users: of the batch, a measurement each.
    """
    options = bench.options
    ask = replace(bench.asked, prompt=(options.chat_prompt,), tokens=options.chat_tokens)
    work = replace(bench.asked, prompt=(options.batch_prompt,), tokens=options.batch_tokens)
    settle = options.chat_settle if how.paced else 0
    chat = Chat(how.chat, ask, options.chat_rate, options.chat_seconds, settle)
    for count in users:
        batch = Batch(how.batch, how.lane, count, work, options.ramp, bench.cores.batch) if count else None
        told = beside(chat, batch, how.engines, bench.folder / "batch.log")
        say(f"{how.name}, {count} batch users: batch {told['batch_tokens_per_s'] or 0:.0f} tok/s")
        bench.book.add("lanes", {"how": how.name, **told, "users": count})


def lanes_shared(bench: Bench, engine: Running, slots: int) -> None:
    """No lanes: straight to the engine, and all in one lane of a gateway, first come first served."""
    users = bench.options.batch_users
    direct = Arrangement("shared, no gateway", target(engine.url), engine.url, None, (engine.url,))
    side_by_side(bench, direct, (0, *users))
    with ExitStack() as stack:
        slots_of = {"lowlatency": slots, "batch": slots}
        one = bench.gateway(split(engine.url, engine.url, slots_of), f"{engine.name}-one-lane", stack)
        how = Arrangement("shared, one lane", target(one.url), one.url, None, (engine.url,))
        side_by_side(bench, how, users)


def lanes_through(bench: Bench, settings: Settings, name: str, engines: Sequence[Running], *, idle: bool) -> None:
    """Two lanes of a gateway."""
    with ExitStack() as stack:
        gateway = bench.gateway(settings, name.replace(" ", "-").replace(",", ""), stack)
        urls = tuple(engine.url for engine in engines)
        paced = settings.get("topology") == "single" and "single.pace" not in settings
        how = Arrangement(name, target(gateway.url, lane="lowlatency"), gateway.url, "batch", urls, paced)
        side_by_side(bench, how, (0, *bench.options.batch_users) if idle else bench.options.batch_users)


def direct_and_gateway(bench: Bench, engine: Running) -> None:
    """The engine itself against a gateway in front of it, in turns, at each level."""
    with ExitStack() as stack:
        wide = {"lowlatency": WIDE, "batch": WIDE}
        gateway = bench.gateway(split(engine.url, engine.url, wide), f"{engine.name}-wide", stack)
        for users in bench.options.levels:
            load = replace(closed(bench.asked, users, 2), warmup=min(users, 8))
            before = gateway.process.cpu_seconds()
            told = versus(target(engine.url), target(gateway.url), bench.asked, load, bench.options.rounds)
            cpu = gateway.process.cpu_seconds() - before
            per_1000 = cpu / (tokens_of(told, "B", bench.asked.tokens) or 1) * 1000
            say(f"{users} users: gateway {per_1000:.3f} CPU s per 1000 tokens")
            bench.book.add("compare", {"users": users, "gateway_cpu_s_per_1000_tokens": per_1000, **told})


def tokens_of(told: Comparison, side: str, tokens: int) -> float:
    """Tokens that went through a side, those of its warm-ups too."""
    cells = [cell for at, cell in told["cells"] if at == side]
    return sum(cell["tokens_per_s"] * cell["seconds"] + cell["warmup"] * tokens for cell in cells)


def interval(bench: Bench, engine: Running, tokens: int, *, gateway: bool) -> None:
    """An engine that sends so many tokens an event: directly, and through a buffering gateway if asked for."""
    users = [count for count in bench.options.levels if count > 1][-2:]
    for count in users:
        _interval(bench, engine, {"interval": tokens, "through": "direct", "users": count}, engine.url)
    if not gateway:
        return
    with ExitStack() as stack:
        wide = {"lowlatency": WIDE, "batch": WIDE}
        front = bench.gateway(split(engine.url, engine.url, wide), f"{engine.name}-buffer", stack)
        for count in users:
            about = {"interval": tokens, "through": "gateway, 4 tokens or 40 ms", "users": count}
            _interval(bench, engine, about, front.url)


def _interval(bench: Bench, engine: Running, about: Mapping[str, Any], url: str) -> None:
    before = engine.process.cpu_seconds()
    cell = levels(target(url), bench.asked, closed(bench.asked, about["users"], 4))[0]
    cpu = engine.process.cpu_seconds() - before
    bench.book.add("interval", {**about, "engine_cpu_s": cpu, "cell": cell})
