"""`tokenlane engine warmup URL`: warms an engine from outside, as the gateway does before it gives it traffic."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.engine.warming import Warming

INTERRUPTED = 130
"""Exit status after a signal; what was seen until then is printed all the same."""


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the action."""
    text = "Warm an engine with bursts until first tokens come as quickly as they will."
    parser = actions.add_parser("warmup", help=text, description=text)
    parser.set_defaults(run=run)
    parser.add_argument("url", help="of the engine, with or without /v1")
    parser.add_argument("--model", help="name of the model (the first that is served)")
    parser.add_argument("--concurrency", type=_positive, default=32, help="requests of the largest burst (%(default)s)")
    parser.add_argument(
        "--prompt-tokens", type=_lengths, default=(16, 512), metavar="16,512", help="lengths of the prompts (16,512)"
    )
    parser.add_argument(
        "--longest-prompt",
        type=int,
        default=8192,
        metavar="N",
        help="one more length: what the engine takes, but at most N; 0: no such prompts (%(default)s)",
    )
    parser.add_argument("--max-seconds", type=_seconds, default=300, metavar="S", help="for all of it (%(default)s)")
    parser.add_argument(
        "--header", type=_pair, action="append", default=[], metavar="K=V", help="header of each request"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was seen as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Warms and prints a table; 1 when the engine is not well or nothing could be warmed, 130 after a signal."""
    import asyncio

    from app.bench.limits import allow_sockets
    from app.bench.target import target
    from app.engine.warming import Warming
    from gateway.telemetry import WarmUpOutcome
    from gateway.warmup import Extent

    try:
        where = target(arguments.url, arguments.header)
    except ValueError as error:
        return _fail(str(error))
    extent = Extent(arguments.concurrency, arguments.prompt_tokens, arguments.longest_prompt)
    warming = Warming(where, extent, arguments.max_seconds, arguments.model, _say)
    allow_sockets()
    try:
        report = asyncio.run(warming.run())
    except KeyboardInterrupt:
        return INTERRUPTED if _written(warming, arguments.json) else 1
    if not _written(warming, arguments.json):
        return 1
    if report.reason:
        _fail(f"{report.outcome}: {report.reason}")
    _say(f"{report.outcome} after {report.seconds:.1f} s")
    return 0 if report.outcome in {WarmUpOutcome.STEADY, WarmUpOutcome.OUT_OF_TIME} else 1


def _written(warming: "Warming", file: Path | None) -> bool:
    """Prints the table and writes the file; whether that went well."""
    from app.engine.warming import table

    if warming.course is not None and warming.course.rows:
        print(table(warming.course), end="")
    try:
        if file is not None:
            file.write_bytes(warming.json())
    except OSError as error:
        _fail(str(error))
        return False
    return True


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(message: str) -> int:
    _say(f"tokenlane: {message}")
    return 1
