"""Running a coroutine as far as it goes without a task: to its end, mostly.

An ASGI `send` waits only while the client's socket is full. Run like this it costs a call, not a switch of tasks, and
can be called where nothing can be awaited: in the call that brought the bytes.
"""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, cast


class Rest:
    """What is left of a coroutine that had to wait: await it, once, for its end.

    Attributes:
        done: whether it has come to its end.
    """

    __slots__ = ("_coroutine", "_waits_for", "done")

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for
        self.done = False

    def __await__(self) -> Generator[Any, Any, None]:
        """Lets the task wait for what the coroutine waits for, and hands it what comes: a value, or a cancellation."""
        waits_for = self._waits_for
        try:
            while True:
                try:
                    value = yield waits_for
                except BaseException as error:  # noqa: BLE001 - it is the coroutine's to deal with
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(value)
        except StopIteration:
            return
        finally:
            self.done = True


def begin(awaitable: Awaitable[None]) -> Rest | None:
    """Runs a coroutine until it ends (None) or waits for something; raises what it raises."""
    coroutine = cast("Coroutine[Any, Any, None]", awaitable)  # an ASGI `send` is one, though its type promises less
    try:
        waits_for = coroutine.send(None)
    except StopIteration:
        return None
    return Rest(coroutine, waits_for)
