"""The database of keys, opened. Importing this imports the database's libraries: see `app.keys`."""

from gateway.batch.sql import Database
from gateway.keys import Key
from gateway.keys.sql import SqlKeys


class KeyStore:
    """The keys of a database, which is brought to this version's schema first. Everything raises StoreUnavailable."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._keys = SqlKeys(self._database)
        self._ready = False

    async def all(self) -> list[Key]:
        """Every key, revoked ones too."""
        await self._prepare()
        return await self._keys.all()

    async def add(self, key: Key) -> None:
        """Keeps a new key. Raises NameTaken."""
        await self._prepare()
        await self._keys.add(key)

    async def revoke(self, wanted: str, now: float) -> Key | None:
        """Revokes the key of this id, prefix or name; None if no key that is good has it."""
        await self._prepare()
        return await self._keys.revoke(wanted, now)

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._database.aclose()

    async def _prepare(self) -> None:
        if not self._ready:
            await self._database.migrate()
            self._ready = True
