"""A child process that does not outlive this one: started through `guard.py`, at the other end of a pipe."""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

GUARD = Path(__file__).with_name("guard.py")


class ChildEnded(Exception):
    """A child ended by itself.

    Args:
        name: of the child.
        code: it ended with.
        log: where its output went; None: to ours.
    """

    def __init__(self, name: str, code: int, log: Path | None) -> None:
        super().__init__(f"{name} ended with exit code {code}")
        self.log = log


class Child:
    """A running child."""

    def __init__(self, name: str, log: Path | None, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._log = log
        self._process = process
        self._pipe = cast("asyncio.StreamWriter", process.stdin)
        self._asked = False

    async def ended(self) -> None:
        """Wait until it ends, and raise `ChildEnded` then."""
        raise ChildEnded(self._name, await self._process.wait(), self._log)

    def ask_to_stop(self) -> None:
        """Have it asked to stop, once; what remains after its grace is killed."""
        if not self._asked:
            self._asked = True
            self._pipe.write(b".")

    async def stop(self) -> None:
        """Ask it to stop and wait until it has; when cancelled meanwhile, kill it."""
        self.ask_to_stop()
        try:
            await self._process.wait()
        finally:
            self._pipe.close()
            await self._process.wait()


@asynccontextmanager
async def running(
    name: str,
    command: Sequence[str | Path],
    *,
    grace: float,
    variables: Mapping[str, str],
    log: Path | None = None,
) -> AsyncIterator[Child]:
    """A child that runs within the block and is stopped, with all of its own children, at its end.

    Args:
        name: for messages.
        command: to run.
        grace: seconds it has between being asked to stop and being killed.
        variables: its environment variables.
        log: file for what it prints; None: where ours goes.
    """
    guarded = [sys.executable, "-I", GUARD, str(grace), *command]
    output = log.open("wb") if log else None
    try:
        process = await asyncio.create_subprocess_exec(
            *guarded, stdin=asyncio.subprocess.PIPE, stdout=output, stderr=output, env=variables, start_new_session=True
        )
    finally:
        if output:
            output.close()
    child = Child(name, log, process)
    try:
        yield child
    finally:
        await child.stop()


async def while_alive(children: Iterable[Child], work: Coroutine[None, None, object]) -> None:
    """Run `work` as long as all `children` live; the first that ends is raised as `ChildEnded`."""
    tasks = [asyncio.create_task(work), *(asyncio.create_task(child.ended()) for child in children)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
