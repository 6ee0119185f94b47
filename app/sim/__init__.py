"""A simulated vLLM: the wire format of vLLM 0.32 at a set pace, and every way in which an engine can fail.

`SimEngine` is the server, `SimSettings` says how it behaves, `serve` runs one until a signal. Nothing here
imports the gateway: the simulator is the independent engine that the gateway is tested against.

    settings, controls   how the engine behaves, and what one request may ask of it by header
    vocabulary           tokens and their text
    schema, rules, refusals, asked    a request body, checked as vLLM checks it
    script               who says what: the tokens of each choice
    emission             tokens to deltas: stop strings, stream interval
    wire/                JSON bodies, key for key as vLLM writes them
    steps                an answer as a series of timed steps
    faults               steps to other steps
    jobs                 all of the above for one request
    stored               responses that are kept, and those in the background
    http, pages, pooling heads of answers; the endpoints that are not generation
    seats                who runs, who waits
    kernels              what a batch of a new size costs
    performance, server, exchange, engine, routes, serve    the modules that do I/O

All but the last line are pure: no clock, no socket, no task.
"""

from app.sim.engine import SimEngine
from app.sim.serve import serve
from app.sim.settings import SimSettings

__all__ = ["SimEngine", "SimSettings", "serve"]
