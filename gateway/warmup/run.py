"""Goes through a course with an engine, in a bounded time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.errors import EngineAnswered, EngineError
from gateway.telemetry import WarmUpOutcome
from gateway.warmup.asking import GeneratesNothing
from gateway.warmup.course import Course, Row
from gateway.warmup.plan import Size

BUSY = frozenset({408, 429, 503})
"""Answers of an engine that is full. One that has ended smaller bursts well is left alone with larger ones."""

Burst = Callable[[Size], Awaitable[Sequence[float]]]
"""Asks for a burst: the TTFT of each of its requests in seconds, or an EngineError."""

Told = Callable[[Row], None]
"""Hears of each burst that ended well: the last of the row's TTFTs."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a warm-up ended, after so many seconds; `reason` says more where it is not `STEADY`."""

    outcome: WarmUpOutcome
    seconds: float
    reason: str = ""


async def run(
    course: Course, burst: Burst, *, budget: float, told: Told, clock: Callable[[], float] = time.monotonic
) -> Report:
    """Warms an engine.

    Args:
        course: which bursts; it knows afterwards what they came to.
        burst: asks for one.
        budget: seconds for all of it. An engine that has ended one burst well is good enough then, since whoever waits
            for the rest would wait for it in any case; one that has not is not well.
        told: hears how it goes.
        clock: monotonic seconds.
    """
    began = clock()
    try:
        async with asyncio.timeout(budget):
            outcome, reason = await _go(course, burst, told)
    except TimeoutError:
        outcome = WarmUpOutcome.OUT_OF_TIME if course.done else WarmUpOutcome.FAILED
        reason = f"not steady within {budget:g} s"
    return Report(outcome, clock() - began, reason)


async def _go(course: Course, burst: Burst, told: Told) -> tuple[WarmUpOutcome, str]:
    refusal = ""
    while (size := course.next) is not None:
        try:
            course.succeeded(await burst(size))
        except GeneratesNothing as error:
            return WarmUpOutcome.SKIPPED, str(error)
        except EngineError as error:
            if not _is_refusal(error) and course.failed():
                continue
            if not _is_refusal(error) and not (_is_busy(error) and course.done):
                return WarmUpOutcome.FAILED, str(error)
            course.refused()
            refusal = f"{size.concurrency} prompts of {size.prompt_tokens} tokens were refused: {error}"
        else:
            told(course.rows[-1])
    return WarmUpOutcome.STEADY if course.done else WarmUpOutcome.SKIPPED, refusal


def _is_refusal(error: EngineError) -> bool:
    """Whether the engine says that it will never take such a burst: not a failure, and not asked again."""
    return isinstance(error, EngineAnswered) and error.status < 500 and error.status not in BUSY


def _is_busy(error: EngineError) -> bool:
    return isinstance(error, EngineAnswered) and error.status in BUSY
