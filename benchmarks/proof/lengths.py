"""Prompts of every length, one after another, for engines that compile something for each number of tokens of a step.

vLLM serves gpt-oss on a Hopper card with Triton kernels whose routing is compiled for each number of tokens in a step,
rounded up to 32, and once more for multiples of 16. A step that fits a captured CUDA graph is padded to its size and is
compiled at the start; a larger one is compiled when it is first met, and everybody waits for it.
"""

import json
import random
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

GRAIN = 32
"""Tokens that share what is compiled."""
LATE = 0.15
"""Seconds by which the first of two equal requests has to be slower for something to have been compiled."""
ENOUGH = 12
"""Lengths in a row that were not late: nothing is left, or this engine compiles nothing for a length."""
TOKENS = range(100, 1001)
PATIENCE = 120

Ask = Callable[[int], float]
"""Asks for one token behind so many; returns the seconds it took."""


@dataclass(frozen=True, slots=True)
class Swept:
    """How many lengths were asked, how many of them were late at first, and the seconds of all."""

    asked: int
    late: int
    seconds: float


def lengths(most: int) -> list[int]:
    """Two lengths of each grain up to `most`, one of them a multiple of 16, in an order that is spread evenly."""
    found = [size - rest for size in range(GRAIN, most + 1, GRAIN) for rest in (0, size // GRAIN % 15 + 1)]
    random.Random(0).shuffle(found)
    return found


def swept(ask: Ask, most: int, budget: float, clock: Callable[[], float] = time.monotonic) -> Swept:
    """Asks each length twice, until nothing is late any more or the time is over; raises what `ask` raises."""
    began, asked, late, quiet = clock(), 0, 0, 0
    for length in lengths(most):
        if quiet >= ENOUGH or clock() - began > budget:
            break
        surprise = ask(length) - ask(length) > LATE
        asked += 1
        late += surprise
        quiet = 0 if surprise else quiet + 1
    return Swept(asked, late, clock() - began)


def asker(url: str, model: str) -> Ask:
    """Asks an engine, with prompts of random token ids that no prefix cache knows; it raises OSError."""

    def ask(length: int) -> float:
        body = {"model": model, "prompt": random.choices(TOKENS, k=length), "max_tokens": 1}
        request = urllib.request.Request(
            f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            response.read()
        return time.monotonic() - began

    return ask
