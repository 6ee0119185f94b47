"""`python -m benchmarks.proof.gpu`: what the gateway and its profiles do for vLLM on one or two cards.

Each session is a process that starts engines, does its steps and ends them; sessions run side by side on the cards of
`--gpus`, the important ones first. Figures are in `--out` as soon as they are measured: `results.json` is all of them.
Requests are completions of random words with answers of fixed length, so random weights serve as well as real ones.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from app.bench.facts import facts
from app.bench.limits import allow_sockets
from benchmarks.proof.book import Book, merged, say
from benchmarks.proof.engine import Launcher, ask_options
from benchmarks.proof.measure import Asked, Interrupted
from benchmarks.proof.process import ROOT, TOKENLANE, ProcessFailed
from benchmarks.proof.sessions import SESSIONS, STEPS
from benchmarks.proof.steps import Bench, Cores
from benchmarks.proof.tables import markdown, write

SIMULATED = shlex.join([*TOKENLANE, "sim"]) + " --port {port} --max-num-seqs {max_num_seqs} --ttft-ms 30 --itl-ms 4"
SAMPLED = {"temperature": 1.0, "top_p": 1.0, "skip_special_tokens": False}
"""Whatever the weights are, and whatever a profile says: each answer is another one, and all of it is visible."""
LEAST = 90
"""Seconds that have to be left for a session to be begun."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = top.add_argument
    add("--out", type=Path, required=True, help="folder for results and logs")
    add("--steps", type=_steps, default=STEPS, metavar="A,B", help=f"of {', '.join(STEPS)} (all)")
    add("--gpus", type=integers, default=(0,), metavar="0,1", help="indexes of cards (0)")
    add("--minutes", type=float, default=60, help="after which nothing is begun and all is ended (%(default)s)")
    add("--scale", type=float, default=1, help="of requests and seconds: 0.05 for a try (%(default)s)")
    add("--model", default="openai/gpt-oss-20b", help="name or folder (%(default)s)")
    add("--name", default="gpt-oss-20b", help="that the model is served under (%(default)s)")
    add("--vllm-python", default="python3", help="Python that has vLLM (%(default)s)")
    add("--vllm-env", type=_variables, default={}, metavar="'A=1 B=2'", help="variables for vLLM, beside ours")
    add("--engine-flags", default="", help="flags that every engine gets: --load-format dummy")
    add("--engine-command", help="another command than vLLM's: words {port} {model} {flags} {max_num_seqs} are filled")
    add("--dry", action="store_true", help="simulated engines, to try these programs")
    add("--drop-flags", type=_words, default=(), metavar="A,B", help="flags of profiles to leave out")
    add("--gateway-set", action="append", default=[], metavar="PATH=VALUE", help="a setting of every gateway")
    add("--caches", type=Path, help="folder for what vLLM compiles (OUT/caches)")
    add("--levels", type=integers, default=(1, 16, 64, 256), help="users (1,16,64,256)")
    add("--bursts", type=integers, default=(16, 64), help="users of the first bursts (16,64)")
    add("--prompt", type=int, default=512, help="words of a prompt (%(default)s)")
    add("--tokens", type=int, default=128, help="of an answer (%(default)s)")
    add("--rounds", type=int, default=3, help="of A B B A, gateway against engine (%(default)s)")
    add("--batch-users", type=integers, default=(64, 256), help="closed loops of batch work (64,256)")
    add("--batch-prompt", type=int, default=1024, help="words (%(default)s)")
    add("--batch-tokens", type=int, default=512, help="of an answer (%(default)s)")
    add("--ramp", type=float, default=8, help="seconds of batch work before chat is measured (%(default)s)")
    add("--chat-prompt", type=int, default=128, help="words (%(default)s)")
    add("--chat-tokens", type=int, default=64, help="of an answer (%(default)s)")
    add("--chat-rate", type=float, default=6, help="arrivals a second (%(default)s)")
    add("--chat-seconds", type=float, default=20, help="for which chat arrives (%(default)s)")
    add("--chat-settle", type=float, default=15, help="seconds of it beside a batch, not measured (%(default)s)")
    add("--report", action="store_true", help="only print what is in --out")
    add("--json", type=Path, help="write all of it there too")
    add("--commit", help="of this tree, where it is no checkout")
    add("--session", choices=SESSIONS, help=argparse.SUPPRESS)
    add("--cards", type=integers, default=(), help=argparse.SUPPRESS)
    add("--cpus", type=integers, default=(), help=argparse.SUPPRESS)
    add("--deadline", type=float, default=0, help=argparse.SUPPRESS)
    return top


def main() -> int:
    """Measures, prints, writes; returns the exit code: 1 if anything went wrong."""
    options = parser().parse_args()
    options.out = options.out.resolve()
    options.caches = (options.caches or options.out / "caches").resolve()
    allow_sockets()
    if options.session:
        return session(options)
    if not options.report:
        options.out.mkdir(parents=True, exist_ok=True)
        Schedule(options).run()
    tree = collect(options)
    print(markdown(tree))
    if options.json:
        write(options.json, tree)
    return 1 if tree.get("problems") else 0


def collect(options: argparse.Namespace) -> dict[str, object]:
    """All results of the folder, in one file too."""
    files = [file for name in SESSIONS if (file := options.out / f"session-{name}.json").exists()]
    found = facts([Path(sys.argv[0]).name, *sys.argv[1:]])
    found["commit"] = found["commit"] or options.commit
    found["cards"] = cards()
    if (known := options.out / "vllm-options.json").exists():
        found["versions"]["vllm"] = json.loads(known.read_text(encoding="utf-8"))["version"]
    tree = merged(files, {"facts": found})
    write(options.out / "results.json", tree)
    return tree


def cards() -> list[str]:
    """Name, memory and driver of each card; none where there is no driver to ask."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def session(options: argparse.Namespace) -> int:
    """One session, in a process of its own."""
    signal.signal(signal.SIGTERM, leave)
    book = Book(options.out / f"session-{options.session}.json", {"session": options.session})
    cores = dealt(options.cpus)
    if cores.client:
        os.sched_setaffinity(0, cores.client)
    asked = Asked(options.name, "completions", (options.prompt,), options.tokens, options.scale, SAMPLED)
    try:
        bench = Bench(options, book, launcher(options, book), cores, options.deadline, asked)
        SESSIONS[options.session].run(bench, options.cards)
    except (ProcessFailed, OSError, subprocess.SubprocessError) as error:
        book.problem(options.session, error)
        return 1
    except Interrupted:
        book.problem(options.session, "interrupted")
        return 1
    return 0


def launcher(options: argparse.Namespace, book: Book) -> Launcher:
    """What starts engines. Where vLLM cannot be asked for its options, all flags of a profile are passed on."""
    variables = {} if options.dry else options.vllm_env
    file = None
    if options.dry or options.engine_command:
        template = SIMULATED if options.dry else options.engine_command
    else:
        own = f"{options.vllm_python} -m vllm.entrypoints.cli.main serve {{model}} --served-model-name {options.name}"
        template = f"{own} --host 127.0.0.1 --port {{port}} {options.engine_flags} {{flags}}"
        if options.session not in ("default", "starts"):  # those have no flag that may be unknown
            try:
                file = ask_options(options.out / "vllm-options.json", options.vllm_python, variables)
            except (OSError, subprocess.SubprocessError) as error:
                book.problem("the options of vLLM", error)
    return Launcher(template, options.model, variables, options.out / f"logs-{options.session}", file)


def dealt(cpus: Sequence[int]) -> Cores:
    """CPUs for engines, gateway, batch and client; no binding where there are few."""
    if len(cpus) < 8:
        return Cores()
    return Cores(tuple(cpus[:-4]), (cpus[-4],), (cpus[-3],), tuple(cpus[-2:]))


@dataclass(slots=True)
class Started:
    """A session that runs on some cards."""

    name: str
    cards: list[int]
    process: "subprocess.Popen[bytes]"


class Schedule:
    """Runs sessions on free cards, in order: none overtakes one that waits for more cards.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._deadline = time.time() + options.minutes * 60
        self._free = list(options.gpus)
        self._running: list[Started] = []

    def run(self) -> None:
        """Everything that was asked for."""
        waiting = [name for name, each in SESSIONS.items() if set(each.steps) & set(self._options.steps)]
        signal.signal(signal.SIGTERM, leave)
        try:
            while waiting or self._running:
                self._begin(waiting)
                self._reap()
                time.sleep(0.2)
        finally:
            self._end()

    def _begin(self, waiting: list[str]) -> None:
        while waiting:
            cards = SESSIONS[waiting[0]].cards
            late = time.time() + LEAST * min(1, self._options.scale) > self._deadline
            if late or cards > len(self._options.gpus):
                say(f"session {waiting.pop(0)} is left out: " + ("no time" if late else f"it needs {cards} cards"))
            elif len(self._free) >= cards:
                self._start(waiting.pop(0), [self._free.pop(0) for _ in range(cards)])
            else:
                return

    def _start(self, name: str, cards: list[int]) -> None:
        say(f"session {name} on {cards}, about {SESSIONS[name].minutes:g} minutes")
        own = ["--session", name, "--cards", _joined(cards), "--deadline", str(self._deadline)]
        own += ["--out", str(self._options.out), "--caches", str(self._options.caches)]
        cpus = [cpu for card in cards for cpu in self._share(card)]
        command = [sys.executable, "-m", "benchmarks.proof.gpu", *sys.argv[1:], *own, "--cpus", _joined(cpus)]
        self._running.append(Started(name, cards, subprocess.Popen(command, cwd=ROOT)))

    def _share(self, card: int) -> list[int]:
        """The CPUs that go with a card."""
        cpus, at = sorted(os.sched_getaffinity(0)), self._options.gpus.index(card)
        size = len(cpus) // len(self._options.gpus)
        return cpus[at * size : (at + 1) * size] if size else cpus

    def _reap(self) -> None:
        late = time.time() > self._deadline
        for each in list(self._running):
            if each.process.poll() is None and late:
                say(f"session {each.name} is out of time")
                _stopped(each.process)
            if each.process.poll() is not None:
                say(f"session {each.name} ended with {each.process.returncode}")
                self._running.remove(each)
                self._free = sorted([*self._free, *each.cards])
                collect(self._options)

    def _end(self) -> None:
        for each in self._running:
            _stopped(each.process)


def _stopped(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()  # the guards of what it started see that it has gone
        process.wait()


def leave(number: int, frame: object) -> NoReturn:
    """What a signal does: the process ends, and all that it started with it."""
    del frame
    raise SystemExit(128 + number)


def _steps(text: str) -> tuple[str, ...]:
    wanted = tuple(text.split(",")) if text != "all" else STEPS
    if unknown := set(wanted) - set(STEPS):
        raise argparse.ArgumentTypeError(f"there is no step {', '.join(sorted(unknown))}")
    return wanted


def integers(text: str) -> tuple[int, ...]:
    """The numbers of `1,8,32`."""
    return tuple(int(part) for part in text.split(",") if part)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _variables(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(text))


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


if __name__ == "__main__":
    sys.exit(main())
