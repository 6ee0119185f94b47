"""How an engine is started: flags of a profile that the installed vLLM knows, and the command around them."""

import fcntl
import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.engine.catalogue import Catalogue, as_json, from_probe
from app.engine.line import options_of
from app.engine.parsers import PROBE, ask_catalogue
from benchmarks.proof.process import Process, free_port, own_variables, running
from config.profiles import load

PROBE_PATIENCE = 240
"""Seconds in which vLLM has to have been imported and asked for its options."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of an engine.

    Args:
        name: of the profile, or what else they are called.
        words: of the command line.
        variables: of the environment.
        slots: sequences at once, as the profile has it; None: vLLM's default.
        dropped: words that this vLLM refuses.
    """

    name: str
    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    slots: int | None = None
    dropped: tuple[str, ...] = ()

    def plus(self, *words: str, name: str | None = None) -> "Flags":
        """These flags and some more; later ones win."""
        return Flags(name or self.name, (*self.words, *words), self.variables, self.slots, self.dropped)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine runs.

    Args:
        gpu: index of its card; None: none.
        cpus: it may use; none: all.
        caches: folder for what vLLM, torch and Triton compile; None: their usual ones.
        more: variables of the environment.
    """

    gpu: int | None = None
    cpus: tuple[int, ...] = ()
    caches: Path | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Of the environment."""
        found = dict(self.more) if self.gpu is None else {**self.more, "CUDA_VISIBLE_DEVICES": str(self.gpu)}
        if self.caches is not None:
            found |= {
                "VLLM_CACHE_ROOT": str(self.caches / "vllm"),
                "TORCHINDUCTOR_CACHE_DIR": str(self.caches / "inductor"),
                "TRITON_CACHE_DIR": str(self.caches / "triton"),
            }
        return found


@dataclass(frozen=True, slots=True)
class Running:
    """An engine that is up: its URL, its process, the seconds it took to start."""

    name: str
    url: str
    process: Process
    start_s: float


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts engines.

    Args:
        template: command; the words `{port}`, `{model}`, `{max_num_seqs}` and `{flags}` are replaced.
        model: name or folder.
        variables: of the environment, beside ours.
        logs: folder for logs.
        options: file with the options of the vLLM that is started; None: every flag is passed on.
        patience: seconds that a start may take.
    """

    template: str
    model: str
    variables: Mapping[str, str]
    logs: Path
    options: Path | None = None
    patience: float = 420

    def profile(self, name: str, drop: Sequence[str] = (), **changes: str) -> Flags:
        """The flags of a profile.

        Args:
            name: of the profile.
            drop: names of flags to leave out.
            changes: flag, with `_` for `-`, -> value instead of the profile's.
        """
        profile = load(name)
        words = profile.arguments({flag.replace("_", "-"): value for flag, value in changes.items()})
        left = [option for option in options_of(words) if option[0].removeprefix("--") not in drop]
        kept, dropped = known(left, self.options)
        return Flags(name, tuple(kept), profile.variables(), profile.lane.slots, tuple(dropped))

    @contextmanager
    def engine(self, flags: Flags, place: Place, name: str | None = None) -> Iterator[Running]:
        """An engine that is healthy, for as long as the block lasts; raises ProcessFailed."""
        with self.starting(flags, place, name) as (process, url):
            took = process.until_ready(f"{url}/health", self.patience)
            yield Running(process.name, url, process, took)

    @contextmanager
    def starting(self, flags: Flags, place: Place, name: str | None = None) -> Iterator[tuple[Process, str]]:
        """The process and URL of an engine that has just been started."""
        port, name = free_port(), name or flags.name
        variables = own_variables() | dict(self.variables) | dict(flags.variables) | place.variables()
        log = self.logs / f"engine-{name}.log"
        with running(name, self.command(flags, port), log=log, variables=variables, cpus=place.cpus) as process:
            yield process, f"http://127.0.0.1:{port}"

    def command(self, flags: Flags, port: int) -> list[str]:
        """The command line."""
        filled = {"{port}": port, "{model}": self.model, "{max_num_seqs}": flags.slots or 1024}
        words: list[str] = []
        for word in shlex.split(self.template):
            words += flags.words if word == "{flags}" else [str(filled.get(word, word))]
        return words


def known(options: Sequence[Sequence[str]], file: Path | None) -> tuple[list[str], list[str]]:
    """The words of options that the vLLM of an options file takes, and of those that it refuses."""
    if file is None:
        return [word for option in options for word in option], []
    tree = json.loads(file.read_text(encoding="utf-8"))
    catalogue = from_probe(tree["version"], tree["options"])
    refusals = ask_catalogue(catalogue, options).refusals
    kept: list[str] = []
    dropped: list[str] = []
    for option, refusal in zip(options, refusals, strict=True):
        (dropped if refusal else kept).extend(option)
    return kept, dropped


def ask_options(file: Path, python: str, variables: Mapping[str, str]) -> Path:
    """Writes the options of an installed vLLM to a file, unless it is there; returns the file.

    Raises:
        subprocess.CalledProcessError, subprocess.TimeoutExpired: that Python has no vLLM that can be asked.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            fresh = file.with_suffix(".new")
            fresh.write_text(as_json(_asked(python, variables)), encoding="utf-8")
            fresh.rename(file)
    return file


def _asked(python: str, variables: Mapping[str, str]) -> Catalogue:
    done = subprocess.run(
        [python, "-c", PROBE.read_text(encoding="utf-8")],
        input="[]",
        capture_output=True,
        text=True,
        timeout=PROBE_PATIENCE,
        cwd="/",
        env={**os.environ, **variables},
        check=True,
    )
    tree = json.loads(done.stdout)
    return from_probe(tree["version"], tree["options"])
