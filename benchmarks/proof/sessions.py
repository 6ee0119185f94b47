"""Which engines run, and the steps that are done while they do. The order is that of importance."""

import itertools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.proof import steps
from benchmarks.proof.book import say
from benchmarks.proof.engine import Flags, Place, Running
from benchmarks.proof.gateway import PRIORITIES, UNPACED, single, split
from benchmarks.proof.lengths import GRAIN, Swept, asker, swept
from benchmarks.proof.measure import warm
from benchmarks.proof.steps import Bench

HALF = ("--gpu-memory-utilization", "0.45", "--kv-cache-memory-bytes", "30G")
"""For two engines on one card. The size of the cache is stated, so that neither measures what the other takes."""
THIRD = ("--gpu-memory-utilization", "0.3", "--kv-cache-memory-bytes", "16G")
"""For three."""
RESERVE = 8
STEP = 8192
"""Tokens of a step, by vLLM's default for a large card."""
BARE = ("--max-cudagraph-capture-size", "1024")
"""CUDA graphs as vLLM captures them for this model by itself: steps of `single` can be larger than the largest."""


@dataclass(frozen=True, slots=True)
class Session:
    """Engines that run together.

    Args:
        steps: that they are for.
        cards: how many.
        minutes: that it takes, from the start to the end, on an H200.
        run: does it, on the cards of these indexes.
    """

    steps: tuple[str, ...]
    cards: int
    minutes: float
    run: Callable[[Bench, Sequence[int]], None]


def flags_of(bench: Bench, profile: str, *more: str) -> Flags:
    """The flags of a profile on one card; `default` is no profile at all."""
    if profile == "default":
        return Flags("default", ("--max-model-len", "8192", *more))
    drop = bench.options.drop_flags
    return bench.launcher.profile(profile, drop, tensor_parallel_size="1").plus(*more)


def up(bench: Bench, stack: ExitStack, wanted: Sequence[tuple[str, Flags, Place]]) -> list[Running]:
    """Engines by name, all started at once, until the stack is closed; raises ProcessFailed."""
    began = time.monotonic()
    started = [stack.enter_context(bench.launcher.starting(flags, place, name)) for name, flags, place in wanted]
    found = []
    for (name, flags, _), (process, url) in zip(wanted, started, strict=True):
        process.until_ready(f"{url}/health", bench.launcher.patience)
        found.append(Running(name, url, process, time.monotonic() - began))
        bench.note(found[-1], flags)
    return found


def settled(bench: Bench, engine: Running, flags: Flags, budget: float = 120) -> Swept:
    """Prompts of all lengths that a step of this engine may have, so that none is met first in a figure."""
    most = min(_last(flags, "--max-num-batched-tokens"), _last(flags, "--max-model-len") - GRAIN)
    told = swept(asker(engine.url, bench.asked.model), most, bench.asked.short(budget))
    say(f"{engine.name}: {told.late} of {told.asked} lengths were late, {told.seconds:.1f} s")
    return told


def _last(flags: Flags, name: str) -> int:
    """The last value of a flag, which is the one that counts."""
    values = [int(value) for word, value in itertools.pairwise(flags.words) if word == name]
    return values[-1] if values else STEP


def emptied(place: Place) -> None:
    """Nothing that was compiled before is left: the engine starts as on a new machine."""
    if place.caches is not None:
        shutil.rmtree(place.caches, ignore_errors=True)


def default(bench: Bench, cards: Sequence[int]) -> None:
    """The engine as it comes, from its first burst on."""
    place = bench.place(cards[0], "kept")
    if bench.wants("cold"):
        emptied(place)
    with ExitStack() as stack:
        (engine,) = up(bench, stack, [("default", flags_of(bench, "default"), place)])
        bench.step("cold", 25, lambda: steps.bursts(bench, engine, "no warm-up", 0, turns=2))
        settled(bench, engine, flags_of(bench, "default"))
        bench.step("rows-default", 45, lambda: steps.rows(bench, engine, "default"))
        bench.step("lanes-shared", 150, lambda: steps.lanes_shared(bench, engine, 96))


def front(bench: Bench, cards: Sequence[int]) -> None:
    """The same engine started again, with what it compiled kept; then a gateway in front of it."""
    with ExitStack() as stack:
        (engine,) = up(bench, stack, [("default", flags_of(bench, "default"), bench.place(cards[0], "kept"))])
        bench.step("kept", 15, lambda: steps.bursts(bench, engine, "no warm-up, compiled files kept", 0))
        settled(bench, engine, flags_of(bench, "default"))
        warm(engine.url, bench.asked, bench.asked.many(max(bench.options.levels), 2))
        bench.step("gateway", 110, lambda: steps.direct_and_gateway(bench, engine))


def starts(bench: Bench, cards: Sequence[int]) -> None:
    """Fresh engines on one card: one gets three single requests before its first burst, the other our warm-up."""
    flags = flags_of(bench, "default", *HALF)
    _fresh(bench, cards[0], {"cold-singles": flags, "cold-warmup": flags})


def covered(bench: Bench, cards: Sequence[int]) -> None:
    """Fresh engines whose steps fit their graphs, without a warm-up and with ours; and one with larger steps."""
    whole, bare = flags_of(bench, "single", *THIRD), flags_of(bench, "single", *THIRD, *BARE)
    _fresh(bench, cards[0], {"covered": whole, "covered-warmup": whole, "lengths": bare})


def _fresh(bench: Bench, card: int, engines: Mapping[str, Flags]) -> None:
    wanted = [(name, flags, bench.place(card, name)) for name, flags in engines.items() if bench.wants(name)]
    for _, _, place in wanted:
        emptied(place)
    with ExitStack() as stack:
        for engine, (_, flags, _) in zip(up(bench, stack, wanted), wanted, strict=True):
            bench.step(engine.name, 60, partial(_after, bench, engine, flags))


def _after(bench: Bench, engine: Running, flags: Flags) -> None:
    most = max(bench.options.bursts)
    match engine.name:
        case "cold-singles":
            steps.bursts(bench, engine, "three single requests", steps.singles(bench, engine))
        case "cold-warmup":
            steps.bursts(bench, engine, "tokenlane engine warmup", steps.warmed_up(bench, engine, most))
        case "covered":
            steps.bursts(bench, engine, "no warm-up, steps in graphs", 0, turns=2)
        case "covered-warmup":
            seconds = steps.warmed_up(bench, engine, most)
            steps.bursts(bench, engine, "tokenlane engine warmup, steps in graphs", seconds, turns=2)
        case _:
            steps.bursts(bench, engine, "prompts of all lengths", settled(bench, engine, flags).seconds)


def one_engine(bench: Bench, cards: Sequence[int]) -> None:
    """The profile for both lanes on one engine: without a pace, as shipped, and at each level."""
    flags = flags_of(bench, "single")
    with ExitStack() as stack:
        (engine,) = up(bench, stack, [("single", flags, bench.place(cards[0], "kept"))])
        settings = {**single(engine.url, flags.slots or 96, RESERVE), **PRIORITIES}
        settled(bench, engine, flags)
        warm(engine.url, bench.asked, bench.asked.many(max(bench.options.levels), 2))
        for name, given in (("single, no pace", UNPACED), ("single", {})):
            bench.step(
                "lanes-single",
                150,
                partial(steps.lanes_through, bench, {**settings, **given}, name, [engine], idle=True),
            )
        bench.step("rows-single", 50, lambda: steps.rows(bench, engine, "single"))


def sized(tokens: int) -> Callable[[Bench, Sequence[int]], None]:
    """The profile for both lanes on one engine, with another number of tokens a step than it says."""

    def run(bench: Bench, cards: Sequence[int]) -> None:
        name = f"single-{tokens}"
        flags = flags_of(bench, "single", "--max-num-batched-tokens", str(tokens))
        with ExitStack() as stack:
            (engine,) = up(bench, stack, [(name, flags, bench.place(cards[0], "kept"))])
            settings = {**single(engine.url, flags.slots or 96, RESERVE), **PRIORITIES}
            settled(bench, engine, flags)
            warm(engine.url, bench.asked, bench.asked.many(max(bench.options.levels), 2))
            how = f"single, {tokens} tokens a step"
            bench.step(f"lanes-{name}", 110, lambda: steps.lanes_through(bench, settings, how, [engine], idle=True))

    return run


def two_cards(bench: Bench, cards: Sequence[int]) -> None:
    """An engine a lane, a card each."""
    with ExitStack() as stack:
        engines = _lanes(bench, stack, cards, ())
        for engine in engines:
            bench.step(f"rows-{engine.name}", 55, partial(steps.rows, bench, engine, engine.name))
        _split(bench, "lanes-two-cards", "split, two cards", engines)


def one_card(bench: Bench, cards: Sequence[int]) -> None:
    """An engine a lane, both on one card."""
    with ExitStack() as stack:
        _split(bench, "lanes-one-card", "split, one card", _lanes(bench, stack, (cards[0], cards[0]), HALF))


def _lanes(bench: Bench, stack: ExitStack, cards: Sequence[int], more: Sequence[str]) -> list[Running]:
    names = ("low-latency", "batch")
    wanted = [
        (name, flags_of(bench, name, *more), bench.place(card, "kept"))
        for name, card in zip(names, cards, strict=False)
    ]
    engines = up(bench, stack, wanted)
    for engine, (_, flags, _) in zip(engines, wanted, strict=True):
        settled(bench, engine, flags)
    return engines


def _split(bench: Bench, step: str, name: str, engines: Sequence[Running]) -> None:
    settings = split(engines[0].url, engines[1].url, {"lowlatency": 32, "batch": 128})

    def work() -> None:
        for engine in engines:
            warm(engine.url, bench.asked, bench.asked.many(64, 2))
        steps.lanes_through(bench, settings, name, engines, idle=True)

    bench.step(step, 110, work)


def profile(name: str) -> Callable[[Bench, Sequence[int]], None]:
    """A profile alone on a card."""

    def run(bench: Bench, cards: Sequence[int]) -> None:
        with ExitStack() as stack:
            flags = flags_of(bench, name)
            (engine,) = up(bench, stack, [(name, flags, bench.place(cards[0], "kept"))])
            settled(bench, engine, flags)
            bench.step(f"rows-{name}", 45, lambda: steps.rows(bench, engine, name))

    return run


def sending(tokens: int) -> Callable[[Bench, Sequence[int]], None]:
    """The profile for many users, with so many tokens an event."""

    def run(bench: Bench, cards: Sequence[int]) -> None:
        flags = flags_of(bench, "high-concurrency", "--stream-interval", str(tokens))
        with ExitStack() as stack:
            (engine,) = up(bench, stack, [(f"interval-{tokens}", flags, bench.place(cards[0], "kept"))])
            settled(bench, engine, flags)
            warm(engine.url, bench.asked, bench.asked.many(max(bench.options.levels), 2))
            bench.step(f"interval-{tokens}", 30, lambda: steps.interval(bench, engine, tokens, gateway=tokens == 1))

    return run


SESSIONS: dict[str, Session] = {
    "default": Session(("cold", "rows-default", "lanes-shared"), 1, 6, default),
    "starts": Session(("cold-singles", "cold-warmup"), 1, 4, starts),
    "covered": Session(("covered", "covered-warmup", "lengths"), 1, 6, covered),
    "two-cards": Session(("rows-low-latency", "rows-batch", "lanes-two-cards"), 2, 5, two_cards),
    "single": Session(("rows-single", "lanes-single"), 1, 7, one_engine),
    "front": Session(("kept", "gateway"), 1, 4, front),
    "single-1024": Session(("lanes-single-1024",), 1, 3, sized(1024)),
    "one-card": Session(("lanes-one-card",), 1, 3.5, one_card),
    "single-512": Session(("lanes-single-512",), 1, 3, sized(512)),
    "high-concurrency": Session(("rows-high-concurrency",), 1, 2.5, profile("high-concurrency")),
    "interval-1": Session(("interval-1",), 1, 2.5, sending(1)),
    "interval-4": Session(("interval-4",), 1, 2.5, sending(4)),
    "interval-8": Session(("interval-8",), 1, 2.5, sending(8)),
    "kv-cache": Session(("rows-kv-cache",), 1, 2.5, profile("kv-cache")),
}
STEPS = tuple(step for session in SESSIONS.values() for step in session.steps)
