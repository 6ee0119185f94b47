"""`tokenlane sim`: the simulated vLLM, alone."""

import argparse
import sys

OPTIONS = {
    "model": (str, "name of the model that is served"),
    "ttft_ms": (float, "milliseconds to the first token"),
    "itl_ms": (float, "milliseconds between two tokens"),
    "tokens": (int, "tokens of an answer when the request sets no limit"),
    "jitter": (float, "0 to 1: how much the gaps vary"),
    "seed": (int, "of texts and jitter"),
    "max_num_seqs": (int, "sequences that run at once; the rest wait"),
    "max_num_queued": (int, "requests that may wait; one more gets a 503"),
    "max_model_len": (int, "prompt and answer together, in tokens"),
    "stream_interval": (int, "tokens an event after the first one"),
    "cold_ms": (float, "milliseconds that the first batch of each size costs"),
    "fault": (str, "fault that every answer meets, as in the header x-sim-fault"),
    "fault_rate": (float, "0 to 1: how likely the fault is"),
}
"""Option -> its type and help; what is not given keeps the default of `app.sim.SimSettings`."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    parser = commands.add_parser("sim", help="run a simulated vLLM", description="Run a simulated vLLM until a signal.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8001, help="port to listen on (%(default)s)")
    for name, (kind, text) in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal; 1 when a value is out of its bounds or the address cannot be had."""
    import asyncio

    from app.sim import SimSettings, serve

    given = {name: value for name in OPTIONS if (value := getattr(arguments, name)) is not None}
    try:
        asyncio.run(serve(SimSettings(**given), arguments.host, arguments.port))
    except ValueError as error:
        print(f"tokenlane: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"tokenlane: cannot listen on {arguments.host}:{arguments.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
