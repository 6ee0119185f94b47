"""The keys in memory: what a request is checked against. No I/O; whoever owns it feeds it from the store.

The ring starts shut. It is open to everybody only once a look at the store has shown that there has never been a key
and nothing says that one is needed; revoking the last key does not open it again.
"""

from collections.abc import Iterable

from gateway.errors import KeyMissing, KeyRejected, KeysUnavailable
from gateway.keys.key import PREFIX, Key

NOBODY = Key(digest=bytes(32))
"""Stands in for a key that is not there, so that looking for it takes as long."""

RETRY_AFTER = 5.0
"""Seconds to say while the store cannot be read."""


class Keyring:
    """Every key that there is.

    Args:
        required: a key is needed even if there is none.

    Attributes:
        loaded: the store was read at least once.
    """

    def __init__(self, *, required: bool = False) -> None:
        self._required = required
        self._by_prefix: dict[str, Key] = {}
        self._by_id: dict[str, Key] = {}
        self.loaded = False

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def open(self) -> bool:
        """Whether nobody needs a key."""
        return self.loaded and not self._required and not self._by_id

    def take(self, keys: Iterable[Key]) -> None:
        """These are all the keys, revoked ones among them."""
        self._by_id = {key.id: key for key in keys}
        self._by_prefix = {key.prefix: key for key in self._by_id.values()}
        self.loaded = True

    def by_id(self, key_id: str) -> Key | None:
        """A key, whatever has become of it."""
        return self._by_id.get(key_id)

    def knows(self, secret: str) -> bool:
        """Whether a key begins like this secret: if not, it may be newer than what was read last."""
        return secret[:PREFIX] in self._by_prefix

    def check(self, secret: str | None, now: float) -> Key:
        """The key that a secret proves.

        Args:
            secret: as it came, None if none came.
            now: seconds of the epoch.

        Raises:
            KeyMissing, KeyRejected, KeysUnavailable: it gets nothing.
        """
        if not self.loaded:
            raise KeysUnavailable("The API keys cannot be checked now.", retry_after=RETRY_AFTER)
        if not secret:
            raise KeyMissing("An API key is needed: send it as 'Authorization: Bearer KEY'.")
        key = self._by_prefix.get(secret[:PREFIX], NOBODY)
        if not key.proves(secret) or key.revoked_at is not None:
            raise KeyRejected("The API key is not valid.")
        if key.expired(now):
            raise KeyRejected("The API key has expired.")
        return key
