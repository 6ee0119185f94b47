"""Run an async test over asyncio's own event loop and over uvloop."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable

import pytest
import uvloop

FACTORIES = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def over_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test of each kind of loop; fixtures of the test must not be async. What is left pending fails the test."""

    @functools.wraps(test)
    def run(loop_kind: str, **fixtures: object) -> None:
        with asyncio.Runner(loop_factory=FACTORIES[loop_kind]) as runner:
            runner.run(_alone(test(**fixtures)))

    signature = inspect.signature(test)
    own = inspect.Parameter("loop_kind", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()], return_annotation=None)  # type: ignore[attr-defined]
    parametrized: Callable[..., None] = pytest.mark.parametrize("loop_kind", list(FACTORIES))(run)
    return parametrized


async def _alone(test: Awaitable[None]) -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks were left behind: {left}"
    assert not faults, f"the event loop was told of faults: {faults}"
