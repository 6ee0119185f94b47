"""A client that leaves ends its request wherever that is: in the queue, while connecting, in prefill, in the stream.

Nobody listens to a client while its request waits, unless somebody does so on purpose: that is what this is for.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from starlette.types import Receive

from gateway.errors import ClientGone, GatewayError

Listen = Callable[[Callable[[], None]], Callable[[], None]]
"""Has something called when the client has closed its connection, soon if it has already. What it gives undoes that."""


class Hangup:
    """Ends the block when the client closes its connection, or when `cut` is called.

    The block sees a cancellation; what leaves the block is the error: ClientGone, or what `cut` was given.
    A cancellation from elsewhere passes as it is. The request's body must have been read before.

    Args:
        receive: ASGI's; a task listens to it where there is no `listen`.
        listen: the server's own way to hear of it, which costs no task.
    """

    def __init__(self, receive: Receive, listen: Listen | None = None) -> None:
        self._receive = receive
        self._listen = listen
        self._stop: Callable[[], None] | None = None
        self._error: GatewayError | None = None
        self._block: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def cut(self, error: GatewayError) -> None:
        """Ends the block with this error. The first one counts; after the block it does nothing."""
        if self._block is not None and self._error is None:
            self._error = error
            self._block.cancel()

    async def __aenter__(self) -> Self:
        self._block = asyncio.current_task()
        if self._listen is not None:
            self._stop = self._listen(self._gone)
        else:
            self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        block, self._block = self._block, None
        if self._stop is not None:
            self._stop()
            self._stop = None  # it refers to this
        if self._watcher is not None and not self._watcher.done():
            self._watcher.cancel()
            await asyncio.wait((self._watcher,))
        if self._error is not None and block is not None:
            block.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise self._error from error

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def _gone(self) -> None:
        self.cut(ClientGone("The client closed the connection."))
