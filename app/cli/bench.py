"""`tokenlane bench`: what a client of a server gets to feel."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from app.bench.load import Load
    from app.bench.result import Comparison, Run
    from app.bench.session import Plan, Session
    from app.bench.target import Target

    Result = Run | Comparison
    Work = Callable[[Session, Plan], Awaitable[Result]]

INTERRUPTED = 130
"""Exit status after a signal, as a shell has it for SIGINT; what was measured until then is printed all the same."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the actions."""
    parser = commands.add_parser("bench", help="measure TTFT, ITL and throughput; compare a gateway with its engine")
    actions = parser.add_subparsers(required=True, metavar="run|compare|report")
    one = actions.add_parser("run", help="measure a URL", description="Measure a URL at one load after another.")
    one.set_defaults(run=run_run)
    one.add_argument("url", help="of the server, with or without /v1")
    load = one.add_mutually_exclusive_group()
    load.add_argument("--concurrency", type=_integers, metavar="1,8,32", help="closed loop: users that ask at once (1)")
    load.add_argument("--rate", type=_numbers, metavar="1,2,4", help="open loop: arrivals a second (Poisson)")
    load.add_argument("--find-concurrency", action="store_true", help="search the most users with a quick first token")
    one.add_argument(
        "--ttft-limit-ms", type=float, default=1000, help="of its 95th percentile, in the search (%(default)s)"
    )
    one.add_argument("--most", type=int, default=1024, help="users that the search tries at most (%(default)s)")
    one.add_argument("--lane", help="lane to ask for")
    one.add_argument("--header", type=_pair, action="append", default=[], metavar="K=V", help="header of each request")
    _asked(one)
    _written(one)
    _add_compare(actions)
    _add_report(actions)


def _add_compare(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    two = actions.add_parser(
        "compare",
        help="measure two URLs, lanes or headers in turns",
        description="Measure A and B in turns (ABBA) and tell B / A. Two lanes or headers of one URL: give it twice.",
    )
    two.set_defaults(run=run_compare)
    for side in "AB":
        two.add_argument(side.lower(), metavar=side, help="URL")
        two.add_argument(f"--{side.lower()}-lane", help=f"lane to ask for at {side}")
        two.add_argument(
            f"--{side.lower()}-header", type=_pair, action="append", default=[], metavar="K=V", help=f"header at {side}"
        )
    two.add_argument("--header", type=_pair, action="append", default=[], metavar="K=V", help="header at both")
    load = two.add_mutually_exclusive_group()
    load.add_argument("--concurrency", type=int, metavar="N", help="closed loop: users that ask at once (8)")
    load.add_argument("--rate", type=float, metavar="R", help="open loop: arrivals a second (Poisson)")
    two.add_argument("--rounds", type=_positive, default=5, help="of A B B A (%(default)s)")
    _asked(two)
    _written(two)


def _add_report(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    told = actions.add_parser("report", help="results as tables and charts", description="Print results as Markdown.")
    told.set_defaults(run=run_report)
    told.add_argument("files", nargs="+", type=Path, metavar="FILE", help="that run or compare wrote")
    _written(told)
    told.add_argument("--svg", type=Path, metavar="FOLDER", help="write the charts as SVG files")
    told.add_argument("--png", type=Path, metavar="FOLDER", help="write them as SVG and PNG (needs Chromium)")


def _asked(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", help="to ask for (the first that the server names)")
    add("--endpoint", choices=("chat", "completions"), default="chat", help="to ask (%(default)s)")
    add("--requests", type=int, metavar="N", help="of each cell (4 a user or 10 s of arrivals, at least 32)")
    add("--duration", type=float, metavar="S", help="seconds after which no request of a cell begins")
    add("--warmup", type=int, metavar="N", help="requests before each cell, not measured (one a user, at most 32)")
    add("--prompt-tokens", type=_integers, default=(64,), metavar="64,512", help="words of prompts, in turn (64)")
    add("--shared-prefix", type=int, default=0, metavar="N", help="words that all prompts begin with (0)")
    add("--max-tokens", type=int, default=128, help="of an answer (%(default)s)")
    add("--ignore-eos", action="store_true", help="ask vLLM to go on to the maximum")
    add("--body", type=_object, default={}, metavar="JSON", help="more fields of each request's body")
    add("--seed", type=int, help="of prompts and arrivals (a new one each time, so that no cache knows the prompts)")
    add("--retries", type=int, default=0, help="of a request that was refused, after its Retry-After (%(default)s)")
    add("--first-timeout", type=float, default=300, metavar="S", help="seconds to the first token (%(default)s)")
    add("--gap-timeout", type=float, default=60, metavar="S", help="seconds between two events (%(default)s)")


def _written(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write them as a page with charts")


def run_run(arguments: argparse.Namespace) -> int:
    """Measures a URL and prints a table; 1 when it cannot be asked or nothing ended well, 130 after a signal."""
    from app.bench.search import Search
    from app.bench.session import find, run
    from app.bench.target import target

    try:
        where = target(arguments.url, arguments.header, arguments.lane)
        loads = _loads(arguments)
    except ValueError as error:
        return _wrong(str(error))

    async def work(session: "Session", plan: "Plan") -> "Result":
        if arguments.find_concurrency:
            return await find(session, where, plan, Search(most=arguments.most), arguments.ttft_limit_ms)
        return await run(session, where, plan)

    return _measure(arguments, where, loads, work)


def run_compare(arguments: argparse.Namespace) -> int:
    """Measures two sides in turns and prints the ratios; exit status as of `run_run`."""
    from app.bench.load import load
    from app.bench.session import compare
    from app.bench.target import target

    try:
        a = target(arguments.a, [*arguments.header, *arguments.a_header], arguments.a_lane)
        b = target(arguments.b, [*arguments.header, *arguments.b_header], arguments.b_lane)
        users = None if arguments.rate else arguments.concurrency or 8
        one = load(concurrency=users, rate=arguments.rate, **_extent(arguments))
    except ValueError as error:
        return _wrong(str(error))

    async def work(session: "Session", plan: "Plan") -> "Result":
        return await compare(session, {"A": a, "B": b}, plan, arguments.rounds)

    return _measure(arguments, a, (one,), work)


def run_report(arguments: argparse.Namespace) -> int:
    """Prints results as Markdown and writes what else is asked for; 1 when a file cannot be read or written."""
    from app.bench.report.files import NotWritten, write_all
    from app.bench.report.markdown import markdown
    from app.bench.result import NoResult, read

    try:
        results = [(file.stem, read(file)) for file in arguments.files]
        print("\n".join(f"## {name}\n\n{markdown(result)}" for name, result in results), end="")
        write_all(results, json=arguments.json, html=arguments.html, svg=arguments.svg, png=arguments.png)
    except (NoResult, NotWritten, OSError) as error:
        return _wrong(str(error))
    return 0


def _measure(arguments: argparse.Namespace, where: "Target", loads: "tuple[Load, ...]", work: "Work") -> int:
    """Runs it on an event loop of its own, prints and writes the result."""
    import asyncio

    import uvloop

    from app.bench.facts import facts
    from app.bench.limits import allow_sockets
    from app.bench.progress import Progress
    from app.bench.report.files import write_all
    from app.bench.report.markdown import markdown
    from app.bench.session import NoModel, Session, model_of

    given = facts(["tokenlane", *sys.argv[1:]])

    async def whole() -> "Result":
        model = arguments.model or await model_of(where)
        return await work(Session(Progress(sys.stderr)), _plan(arguments, model, loads, given))

    allow_sockets()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(whole())
        print(markdown(result), end="")
        write_all([("result", result)], json=arguments.json, html=arguments.html)
    except (NoModel, ValueError, OSError) as error:
        return _wrong(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return _status(result)


def _plan(arguments: argparse.Namespace, model: str, loads: "tuple[Load, ...]", given: "dict[str, Any]") -> "Plan":
    """What is measured.

    Raises:
        ValueError: a number of the workload is out of its bounds.
    """
    import secrets

    from app.bench.connection import Patience
    from app.bench.session import Plan
    from app.bench.workload import Workload

    workload = Workload(
        model,
        endpoint=arguments.endpoint,
        prompt_tokens=arguments.prompt_tokens,
        shared_prefix=arguments.shared_prefix,
        max_tokens=arguments.max_tokens,
        ignore_eos=arguments.ignore_eos,
        seed=secrets.randbelow(2**31) if arguments.seed is None else arguments.seed,
        extra=arguments.body,
    )
    patience = Patience(first=arguments.first_timeout, gap=arguments.gap_timeout)
    return Plan(loads, workload, given, patience, arguments.retries)


def _loads(arguments: argparse.Namespace) -> "tuple[Load, ...]":
    from app.bench.load import load

    extent = _extent(arguments)
    if arguments.rate:
        return tuple(load(rate=rate, **extent) for rate in arguments.rate)
    return tuple(load(concurrency=users, **extent) for users in arguments.concurrency or (1,))


def _extent(arguments: argparse.Namespace) -> "dict[str, Any]":
    return {"requests": arguments.requests, "duration": arguments.duration, "warmup": arguments.warmup}


def _status(result: "Result") -> int:
    from app.bench.result import cells_of

    if result["interrupted"]:
        return INTERRUPTED
    return 0 if any(told["ok"] for told in cells_of(result)) else 1


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def _object(text: str) -> "dict[str, Any]":
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("is not a JSON object")
    return found


def _wrong(message: str) -> int:
    print(f"tokenlane: {message}", file=sys.stderr)
    return 1
