"""A client that leaves ends its request wherever that is: in the queue, while connecting, in prefill, in the stream.

Nobody listens to a client while its request waits, unless somebody does so on purpose: that is what this is for.
"""

import asyncio
from types import TracebackType
from typing import Self

from starlette.types import Receive

from gateway.errors import ClientGone, GatewayError


class Hangup:
    """Ends the block when the client closes its connection, or when `cut` is called.

    The block sees a cancellation; what leaves the block is the error: ClientGone, or what `cut` was given.
    A cancellation from elsewhere passes as it is. The request's body must have been read before.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
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
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        block, self._block = self._block, None
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
        self.cut(ClientGone("The client closed the connection."))
