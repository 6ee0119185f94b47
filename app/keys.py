"""Keys within the service: the ring in memory, and the task that keeps it like the database.

The database's libraries cost seconds and memory. They are brought in when there can be a key: the database exists, or
it is one that gateways share.
"""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from config.settings import Settings
from gateway.batch.store import StoreUnavailable
from gateway.keys import Key, Keyring

if TYPE_CHECKING:
    from app.key_store import KeyStore

log = structlog.get_logger("tokenlane.keys")

SQLITE = "sqlite:///"
LAST_LOOK_S = 5.0
"""Seconds that the last look has to end by itself."""

NEWS_S = 0.5
"""Seconds between two looks that an unknown key can cause: strangers must not keep the database busy."""


class Keys:
    """Who may ask.

    Args:
        settings: the whole tree.

    Attributes:
        ring: what requests are checked against.
    """

    def __init__(self, settings: Settings) -> None:
        self.ring = Keyring(required=settings.keys.required)
        self._url = settings.batch.url
        self._every = settings.keys.refresh_s
        self._store: KeyStore | None = None
        self._loading = asyncio.Lock()
        self._sought_at = float("-inf")
        self._away = False
        self._stopping = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Looks once, then again and again. A database that is away is waited for while nobody is let in."""
        await self._look()
        self._watching = asyncio.create_task(self._watch())

    async def aclose(self) -> None:
        """Looks no more. A look that is under way may end: one that is cut leaves a connection behind."""
        self._stopping.set()
        if self._watching is not None:
            await asyncio.wait((self._watching,), timeout=LAST_LOOK_S)
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        if self._store is not None:
            await self._store.aclose()

    async def admit(self, secret: str | None) -> Key | None:
        """Whose key it is; None where nobody needs one. Raises what `Keyring.check` does."""
        ring = self.ring
        if ring.open:
            return None
        if secret and not ring.knows(secret):
            await self._look_for_news()
        return ring.check(secret, time.time())

    async def _watch(self) -> None:
        while not self._stopping.is_set():
            await self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._stopping.wait()

    async def _look_for_news(self) -> None:
        """A key that nobody knows may be new."""
        now = asyncio.get_running_loop().time()
        if now - self._sought_at >= NEWS_S:
            self._sought_at = now
            await self._look()

    async def _look(self) -> None:
        """Reads the keys. While the database is away, those that are known stay as they are."""
        async with self._loading:
            try:
                self.ring.take(await self._read())
            except StoreUnavailable as error:
                if not self._away:
                    log.error("the keys cannot be read", error=str(error), known=len(self.ring))  # noqa: TRY400
                self._away = True
            else:
                if self._away:
                    log.info("the keys can be read again", known=len(self.ring))
                self._away = False

    async def _read(self) -> list[Key]:
        if self._store is None:
            if self._url.startswith(SQLITE) and not await asyncio.to_thread(
                Path(self._url.removeprefix(SQLITE)).exists
            ):
                return []
            self._store = await asyncio.to_thread(_opened, self._url)
        return await self._store.all()


def _opened(url: str) -> "KeyStore":
    from app.key_store import KeyStore  # noqa: PLC0415 - two seconds and 30 MB that only keys need

    return KeyStore(url)
