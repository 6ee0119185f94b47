"""A batch on the engine that people chat with: what they feel of it, how it gets on, and what restarts cost it.

First chat alone, then the same chat beside a batch, then the batch alone, in which the gateway is stopped by SIGTERM
and started again, killed and started again. Then a smaller batch on PostgreSQL with two gateways, one of which is
killed for good. At the end each line has to have exactly one result, the one that was recorded first, and the engine
may have finished no more lines than there are and those that ran when a gateway was killed.
"""

import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from app.bench.load import Load
from app.bench.result import Cell
from app.bench.target import target
from benchmarks.proof.book import say
from benchmarks.proof.engine import Running
from benchmarks.proof.gateway import PRIORITIES, Gateway, Settings, single
from benchmarks.proof.measure import Asked, levels, warm
from benchmarks.proof.offline import Desk, input_file
from benchmarks.proof.ordeal import Ordeal, finished
from benchmarks.proof.postgres import postgres
from benchmarks.proof.process import metric
from benchmarks.proof.steps import Bench
from benchmarks.proof.watch import Watch, progress, watching

SLOTS, RESERVE = 32, 8
QUICK: Settings = {"batch.lease_s": 5, "batch.poll_s": 1, "server.shutdown_grace_s": 8}
"""Quicker than the defaults, so that nothing waits a minute for a dead gateway's lease; a stop lets lines finish."""

QUIET, STOPPED, KILLED = 0.5, 0.65, 0.8
"""Of the lines that are left when chat goes: until where the batch is measured alone, a gateway is stopped, killed."""

KILLED_OF_TWO = 0.4
"""Of all lines, when one of two gateways is killed."""

PATIENCE = 300
"""Seconds that any part of a batch may take."""

DONE = "tokenlane_batch_lines_total"


def both(bench: Bench, engine: Running) -> None:
    """The batch beside chat with its restarts, then the one on PostgreSQL."""
    say(f"warm after {warm(engine.url, _chat(bench), bench.asked.many(SLOTS / 2, 4)):.1f} s")
    with tempfile.TemporaryDirectory(prefix="proof-", ignore_cleanup_errors=True) as folder:
        on_sqlite(bench, engine, Path(folder))
    if bench.options.lines_postgres:
        with tempfile.TemporaryDirectory(prefix="proof-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)  # PostgreSQL runs as another user
            on_postgres(bench, engine, Path(folder))


def on_sqlite(bench: Bench, engine: Running, folder: Path) -> None:
    """One gateway at a time, chat beside it at first."""
    settings = _settings(engine, folder, SLOTS, RESERVE)
    count = bench.asked.many(bench.options.lines, 60)
    with ExitStack() as stack:
        gateway = bench.gateway(settings, "batch-1", stack)
        alone = _chatting(bench, gateway)
        bench.book.add("batch", {"who": "chat alone", "chat": alone, "p95_ratio": None, "batch": None})
        before = finished(engine, bench.options.line_tokens)
        ordeal = Ordeal(_submitted(bench, gateway, count, stack), count, f"sqlite:///{folder}/batch.sqlite3", PATIENCE)
        _beside(bench, gateway, ordeal.watch, alone)
        _alone_with_restarts(bench, settings, gateway, ordeal, stack)
        _note(bench, engine, ordeal, "SQLite: SIGTERM, kill -9", before)


def _beside(bench: Bench, gateway: Gateway, watch: Watch, alone: Cell) -> None:
    """Chat while the batch runs."""
    began = time.monotonic()
    chat = _chatting(bench, gateway)
    told = progress(watch.looks, began, time.monotonic())
    ratio = None
    if alone["ttft_ms"] and chat["ttft_ms"]:
        ratio = chat["ttft_ms"]["p95"] / alone["ttft_ms"]["p95"]
        say(f"TTFT P95 beside the batch is {ratio:.2f} times that of chat alone; {told}")
    bench.book.add("batch", {"who": "chat and batch", "chat": chat, "p95_ratio": ratio, "batch": told})
    if watch.over:
        bench.book.problem("batch", "it ended while chat was there: ask for more --lines")


def _alone_with_restarts(bench: Bench, settings: Settings, gateway: Gateway, ordeal: Ordeal, stack: ExitStack) -> None:
    """The batch alone: measured, then its gateway stopped, then killed, then to its end."""
    watch, start, began = ordeal.watch, ordeal.watch.done, time.monotonic()
    ordeal.until_done(QUIET, start)
    told = progress(watch.looks, began, time.monotonic())
    say(f"alone: {told}")
    bench.book.add("batch", {"who": "batch alone", "chat": None, "p95_ratio": None, "batch": told})
    ordeal.until_done(STOPPED, start)
    ordeal.stop(gateway)
    second = bench.gateway(settings, "batch-2", stack)
    ordeal.follow(second, "last line before SIGTERM to the next")
    ordeal.until_done(KILLED, start)
    ordeal.kill(second)
    ordeal.follow(bench.gateway(settings, "batch-3", stack), "last line before kill -9 to the next")
    ordeal.until_over()


def on_postgres(bench: Bench, engine: Running, folder: Path) -> None:
    """Two gateways on one database; one of them is killed, and the other ends the batch."""
    count = bench.asked.many(bench.options.lines_postgres, 40)
    with ExitStack() as stack:
        url = stack.enter_context(postgres(folder / "postgres", bench.folder / "postgres.log"))
        settings = {**_settings(engine, folder / "data", SLOTS // 2, RESERVE // 2), "batch.database_url": url}
        mortal, survivor = (bench.gateway(settings, f"batch-postgres-{n}", stack) for n in (1, 2))
        before = finished(engine, bench.options.line_tokens)
        ordeal = Ordeal(_submitted(bench, mortal, count, stack), count, url, PATIENCE)
        ordeal.watch.url = survivor.url
        ordeal.until_done(KILLED_OF_TWO)
        shares = {name: metric(each.url, DONE) or 0 for name, each in (("killed", mortal), ("other", survivor))}
        say(f"lines done by the gateway that is killed, and the other: {shares}")
        if not all(shares.values()):
            bench.book.problem("batch", f"one of two gateways did nothing: {shares}")
        ordeal.kill(mortal)
        ordeal.until_over()
        _note(bench, engine, ordeal, "PostgreSQL: one of two gateways killed for good", before)


def _submitted(bench: Bench, gateway: Gateway, count: int, stack: ExitStack) -> Watch:
    """Makes the batch; returns when its first line is done."""
    options = bench.options
    asked = replace(bench.asked, prompt=(options.line_prompt,), tokens=options.line_tokens)
    batch_id = Desk(gateway.url).submit(input_file(asked, count))
    watch = stack.enter_context(watching(gateway.url, batch_id))
    watch.until(lambda: watch.done > 0, 60, "begun")
    return watch


def _chat(bench: Bench) -> Asked:
    return replace(bench.asked, prompt=(bench.options.chat_prompt,), tokens=bench.options.chat_tokens)


def _chatting(bench: Bench, gateway: Gateway) -> Cell:
    load = Load(rate=bench.options.chat_rate, requests=bench.asked.many(bench.options.chat_requests, 10), warmup=4)
    return levels(target(gateway.url, lane="lowlatency"), _chat(bench), load)[0]


def _settings(engine: Running, data: Path, slots: int, reserve: int) -> Settings:
    return {**single(engine.url, slots, reserve), **PRIORITIES, **QUICK, "batch.data_dir": data}


def _note(bench: Bench, engine: Running, ordeal: Ordeal, how: str, before: float | None) -> None:
    after = finished(engine, bench.options.line_tokens)
    told = ordeal.told(None if before is None or after is None else after - before)
    bench.book.add("restarts", {"how": how, **told})
    for wrong in told["wrong"]:
        bench.book.problem(f"batch, {how}", wrong)
    looks = [(round(look.at - ordeal.watch.looks[0].at, 2), look.done, look.pace) for look in ordeal.watch.looks]
    (bench.folder / f"looks-{how.partition(':')[0]}.json").write_text(json.dumps(looks), encoding="utf-8")
