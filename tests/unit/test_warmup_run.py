"""A course with an engine that plays a script."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from gateway.errors import EngineAnswered, EngineBroke, EngineError, EngineUnreachable
from gateway.telemetry import WarmUpOutcome
from gateway.warmup.asking import GeneratesNothing
from gateway.warmup.course import Course, Row
from gateway.warmup.plan import Size
from gateway.warmup.run import Report, run

SIZES = [Size(1, 16), Size(4, 16)]


async def warmed(course: Course, burst: Callable[[Size], Awaitable[Sequence[float]]], budget: float = 60) -> Report:
    return await run(course, burst, budget=budget, told=lambda _: None)


def script(*answers: float | Exception) -> Callable[[Size], Awaitable[list[float]]]:
    """An engine that gives one answer after the other, then the last one for ever."""
    left = list(answers)

    async def burst(size: Size) -> list[float]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return [answer] * size.concurrency

    return burst


async def test_an_engine_is_warm_when_every_size_is_steady() -> None:
    told: list[tuple[Size, float]] = []

    def tell(row: Row) -> None:
        told.append((row.size, row.ttfts[-1]))

    course = Course(SIZES)
    report = await run(course, script(6.0, 0.1, 0.1, 0.1), budget=60, told=tell)
    assert (report.outcome, report.reason, course.done) == (WarmUpOutcome.STEADY, "", 5)
    assert told == [(SIZES[0], t) for t in (6.0, 0.1, 0.1)] + [(SIZES[1], 0.1)] * 2


async def test_a_burst_that_fails_is_asked_again() -> None:
    course = Course(SIZES)
    report = await warmed(course, script(EngineBroke("cut"), 0.1, EngineAnswered(500, b""), 0.1))
    assert (report.outcome, course.done) == (WarmUpOutcome.STEADY, 4)


@pytest.mark.parametrize("error", [EngineBroke("cut"), EngineUnreachable("gone"), EngineAnswered(500, b"")])
async def test_an_engine_that_fails_again_and_again_is_not_let_in(error: EngineError) -> None:
    report = await warmed(Course(SIZES), script(0.1, error))
    assert (report.outcome, report.reason) == (WarmUpOutcome.FAILED, str(error))


async def test_what_an_engine_refuses_does_not_keep_it_out() -> None:
    course = Course(SIZES)
    report = await warmed(course, script(0.1, 0.1, EngineAnswered(400, b"")))
    assert (report.outcome, course.rows[1].refused) == (WarmUpOutcome.STEADY, True)
    assert "4 prompts of 16 tokens were refused" in report.reason


async def test_an_engine_that_refuses_everything_is_let_in_without_a_warm_up() -> None:
    assert (await warmed(Course(SIZES), script(EngineAnswered(422, b"")))).outcome is WarmUpOutcome.SKIPPED


async def test_an_engine_that_is_full_with_larger_bursts_is_left_alone_with_them() -> None:
    course = Course(SIZES)
    report = await warmed(course, script(0.1, 0.1, EngineAnswered(503, b"")))
    assert (report.outcome, course.rows[1].refused) == (WarmUpOutcome.STEADY, True)


async def test_an_engine_that_is_full_from_the_start_is_asked_again_later() -> None:
    assert (await warmed(Course(SIZES), script(EngineAnswered(503, b"")))).outcome is WarmUpOutcome.FAILED


async def test_an_engine_that_generates_nothing_has_nothing_to_warm() -> None:
    assert (await warmed(Course(SIZES), script(GeneratesNothing("no")))).outcome is WarmUpOutcome.SKIPPED


async def test_the_time_is_bounded_and_who_answered_once_is_let_in() -> None:
    async def hangs_at_four(size: Size) -> list[float]:
        if size.concurrency == 4:
            await asyncio.Event().wait()
        return [0.1]

    report = await warmed(Course(SIZES), hangs_at_four, budget=0.02)
    assert report.outcome is WarmUpOutcome.OUT_OF_TIME
    assert "0.02 s" in report.reason


async def test_who_never_answered_within_the_time_is_not_let_in() -> None:
    async def hangs(size: Size) -> list[float]:
        await asyncio.Event().wait()
        return []

    assert (await warmed(Course(SIZES), hangs, budget=0.02)).outcome is WarmUpOutcome.FAILED
