"""Whose a stored response is: it stands in its id, for whoever has the key. No table, no memory.

`resp_` + 32 hexadecimal digits of chance + 16 of the HMAC-SHA256 of these with the digest of the key's secret. The
engine is told the id (`request_id`, which vLLM takes for the response's), so that it holds for every gateway that has
the keys, and after a restart. Nobody can make an id of another's key: that takes the digest, which never leaves.
"""

import hmac
import secrets

from gateway.errors import ResponseNotFound
from gateway.keys.key import Key

SCHEME = "resp_"
CHANCE = 32
"""Hexadecimal digits."""

MARK = 16
"""The same: one guess in 18 million million million is right."""


def new_id(key: Key) -> str:
    """An id for a response of this key."""
    chance = secrets.token_hex(CHANCE // 2)
    return SCHEME + chance + _mark(key, chance)


def must_be_of(key: Key | None, response_id: str) -> None:
    """Raises ResponseNotFound unless this key made the response; None, where nobody needs a key, has made all."""
    if key is None:
        return
    chance, mark = response_id[len(SCHEME) : len(SCHEME) + CHANCE], response_id[len(SCHEME) + CHANCE :]
    genuine = response_id.startswith(SCHEME) and hmac.compare_digest(mark.encode(), _mark(key, chance).encode())
    if not genuine:
        raise ResponseNotFound(response_id)


def _mark(key: Key, chance: str) -> str:
    return hmac.digest(key.digest, f"response {chance}".encode(), "sha256").hex()[:MARK]
