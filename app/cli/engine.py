"""`tokenlane engine`: how to launch vLLM, and whether it will start."""

import argparse
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import warmup

if TYPE_CHECKING:
    from app.engine.check import Report
    from app.engine.parsers import Ask
    from app.engine.shape import Shape
    from config.profiles import Profile

FORMATS = ("command", "env", "compose", "gateway")
UNKNOWN = "the model's config.json was not found, so what depends on it was not checked"


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the actions."""
    parser = commands.add_parser("engine", help="launch vLLM by profile, and check its flags")
    actions = parser.add_subparsers(required=True, metavar="list|render|check|run|warmup|advise|catalogue")
    _add(actions, "list", run_list, "Print every profile, what it is for and what it costs.")
    _launch(_add(actions, "render", run_render, "Print a profile as something to start.")).add_argument(
        "--format", choices=FORMATS, default="command", help="command line, variables, compose service, gateway's lane"
    )
    _check(_add(actions, "check", run_check, "Ask vLLM's own parser whether it knows a profile's flags, or yours."))
    run = _launch(_add(actions, "run", run_run, "Become vLLM with a profile's flags."))
    run.add_argument("--vllm-python", type=Path, metavar="PATH", help="Python that has vLLM (that of the PATH's vllm)")
    run.add_argument("--flags", default="", metavar="'--port 8101 ...'", help="more flags for vLLM")
    warmup.add(actions)
    _advise(_add(actions, "advise", run_advise, "Compute what fits the cards, before anything is started."))
    _add(
        actions, "catalogue", run_catalogue, "Print the options of an installed vLLM as the catalogue's file."
    ).add_argument("--vllm-python", type=Path, required=True, metavar="PATH", help="Python that has vLLM")


def _add(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: object, text: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _launch(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("profile", help="name of a profile; see `tokenlane engine list`")
    parser.add_argument("--model", help="name or folder of the model (the profile's)")
    parser.add_argument("--gpus", type=int, metavar="N", help="cards that share the model (the profile's)")
    return parser


def _check(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("profile", nargs="?", help="name of a profile")
    what.add_argument("--flags", metavar="'--swap-space 4 ...'", help="a command line of your own instead")
    parser.add_argument("--model", help="name or folder of the model, to check lengths and sizes against it")
    parser.add_argument("--hardware", choices=("gpu", "cpu"), help="what it will run on (the profile's; gpu)")
    parser.add_argument(
        "--vllm-python", type=Path, metavar="PATH", help="Python that has vLLM (that of the PATH's vllm)"
    )
    parser.add_argument("--catalogue", action="store_true", help="ask the catalogue even if a vLLM is installed")


def _advise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="openai/gpt-oss-20b", help="name or folder of the model (%(default)s)")
    parser.add_argument("--gpu-memory", metavar="24GiB,24GiB", help="memory of each card (asked of the driver)")
    parser.add_argument("--max-model-len", type=int, metavar="N", help="longest sequence (each profile's)")
    parser.add_argument("--overhead", default="2GiB", help="what a card needs beside weights and cache (%(default)s)")


def run_list(arguments: argparse.Namespace) -> int:
    """Prints the profiles."""
    del arguments
    from config.profiles import load, names

    for name in names():
        profile = load(name)
        print(f"{name} ({profile.hardware}, lane {profile.lane.name})\n  {profile.purpose}\n  Cost: {profile.cost}")
    return 0


def run_render(arguments: argparse.Namespace) -> int:
    """Prints a profile in a format."""
    if (profile := _profile(arguments.profile)) is None:
        return 1
    from app.engine.render import FORMATS as WRITERS
    from app.engine.render import Launch

    print(WRITERS[arguments.format](Launch(profile, arguments.model, arguments.gpus)), end="")
    return 0


def run_run(arguments: argparse.Namespace) -> int:
    """Replaces this process by vLLM; returns only when there is none."""
    if (profile := _profile(arguments.profile)) is None:
        return 1
    from app.engine.line import words_of
    from app.engine.render import Launch

    words = Launch(profile, arguments.model, arguments.gpus, words_of(arguments.flags)).words()
    python = arguments.vllm_python
    command = [str(python), "-m", "vllm.entrypoints.cli.main"] if python else ["vllm"]
    if shutil.which(command[0]) is None:
        return _fail(f"there is no {command[0]}; install vLLM or name its Python: --vllm-python PATH")
    return _become([*command, "serve", *words], os.environ | profile.variables())


def _become(command: list[str], variables: dict[str, str]) -> int:
    os.execvpe(command[0], command, variables)  # noqa: S606 - no shell is wanted


def run_check(arguments: argparse.Namespace) -> int:
    """Prints what is to be said about a line; 1 when vLLM would not start."""
    from app.engine.catalogue import history
    from app.engine.check import check
    from app.engine.line import words_of
    from app.engine.parsers import NoAnswer
    from app.engine.rules import Facts

    profile = None
    if arguments.profile is not None and (profile := _profile(arguments.profile)) is None:
        return 1
    try:
        words = profile.arguments() if profile else words_of(arguments.flags)
        shape = _shape(arguments.model or (profile.model if profile else None))
        facts = Facts(arguments.hardware or (profile.hardware if profile else "gpu"), shape)
        report = check(words, _ask(arguments), history(), facts)
    except (NoAnswer, ValueError) as error:
        return _fail(str(error))
    _tell(report, None if shape else UNKNOWN)
    return 0 if report.ok else 1


def run_advise(arguments: argparse.Namespace) -> int:
    """Prints what fits."""
    from app.engine import advise, gpus, report
    from app.engine.model import find
    from app.engine.shape import NoModel
    from config.profiles import load, names

    try:
        found = find(arguments.model)
        memory = gpus.parse(arguments.gpu_memory) if arguments.gpu_memory else gpus.installed()
        (overhead,) = gpus.parse(arguments.overhead)
    except (NoModel, gpus.NoCards, ValueError) as error:
        return _fail(str(error))
    profiles = {name: load(name) for name in names()}
    options = {"max_len": arguments.max_model_len, "overhead": overhead}
    ways = advise.topologies(profiles, found, memory, **options)
    for line in report.lines(found, memory, ways, advise.every(profiles, found, memory, **options), overhead):
        print(line)
    return 0 if any(way.starts for way in ways) else 1


def run_catalogue(arguments: argparse.Namespace) -> int:
    """Prints options.json for an installed vLLM."""
    from app.engine.catalogue import as_json
    from app.engine.parsers import NoAnswer, ask_installed

    try:
        print(as_json(ask_installed(arguments.vllm_python, []).catalogue), end="")
    except NoAnswer as error:
        return _fail(str(error))
    return 0


def _ask(arguments: argparse.Namespace) -> "Ask":
    """The installed parser that was named or is on the PATH, else the catalogue."""
    from app.engine.catalogue import recorded
    from app.engine.parsers import ask_catalogue, ask_installed, installed_python

    python = None if arguments.catalogue else arguments.vllm_python or installed_python()
    return partial(ask_installed, python) if python else partial(ask_catalogue, recorded())


def _shape(model: str | None) -> "Shape | None":
    from app.engine.model import find
    from app.engine.shape import NoModel

    try:
        return find(model).shape if model else None
    except NoModel:
        return None


def _tell(report: "Report", unknown: str | None) -> None:
    print(f"asked: {report.source}")
    for finding in report.findings:
        print(finding)
    if unknown:
        print(f"note: {unknown}")
    print("vLLM would start" if report.ok else "vLLM would not start")


def _profile(name: str) -> "Profile | None":
    from config.profiles import ProfileError, load

    try:
        return load(name)
    except ProfileError as error:
        _fail(str(error))
        return None


def _fail(message: str) -> int:
    for line in message.splitlines():
        print(f"tokenlane: {line}", file=sys.stderr)
    return 1
