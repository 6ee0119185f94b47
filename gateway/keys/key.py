"""A key, and the secret that proves it. Pure but for the randomness of a new one.

A secret is `tl-` and 43 letters, digits, `-` or `_`: 32 random bytes in base64url. Its first eleven characters are kept
in the clear, to find the key by and to tell keys apart; of the whole only the SHA-256. A slow hash would add nothing:
it protects what can be guessed, and 208 bits cannot.
"""

import hashlib
import secrets
from dataclasses import dataclass, field
from hmac import compare_digest

SCHEME = "tl-"
PREFIX = len(SCHEME) + 8
"""Characters of a secret that are no secret."""

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Rights:
    """What a key may do. None: no limit of this kind.

    Attributes:
        lanes: names of the lanes.
        models: names of the models, as engines serve them.
        requests_per_minute: requests that an engine was asked.
        tokens_per_minute: prompt and completion tokens, counted when an answer has ended.
        parallel: requests at once, those that wait for a slot too.
        batch_lines: lines of batches that wait or run. Nothing else counts for them.
        expires_at: seconds of the epoch.
    """

    lanes: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    parallel: int | None = None
    batch_lines: int | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Key(Rights):
    """One key, as it is kept.

    Attributes:
        id: by which things belong to it; no secret.
        name: for people; of the keys that are not revoked each has another one.
        prefix: how its secret begins.
        digest: SHA-256 of the secret.
        created_at: seconds of the epoch.
        revoked_at: the same; None while it is good.
    """

    id: str = ""
    name: str = ""
    prefix: str = ""
    digest: bytes = field(default=b"", repr=False)
    created_at: float = 0.0
    revoked_at: float | None = None

    @property
    def limited(self) -> bool:
        """Whether anything about it has to be counted."""
        return any(limit is not None for limit in (self.requests_per_minute, self.tokens_per_minute, self.parallel))

    def proves(self, secret: str) -> bool:
        """Whether this is its secret; takes the same time wherever the two differ."""
        return compare_digest(digest_of(secret), self.digest)

    def expired(self, now: float) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def may_ask(self, model: str | None) -> bool:
        """Whether it may ask for a model. One that may not ask for all has to name one: an engine has a default."""
        return self.models is None or model in self.models

    def may_use(self, lane: str) -> bool:
        """Whether it may use a lane."""
        return self.lanes is None or lane in self.lanes


def mint(name: str, rights: Rights, now: float) -> tuple[Key, str]:
    """A new key and its secret, which nothing but the caller will ever know."""
    secret = SCHEME + secrets.token_urlsafe(SECRET_BYTES)
    granted = {field: getattr(rights, field) for field in Rights.__slots__}
    key = Key(
        **granted,
        id=f"key_{secrets.token_hex(8)}",
        name=name,
        prefix=secret[:PREFIX],
        digest=digest_of(secret),
        created_at=now,
    )
    return key, secret


def digest_of(secret: str) -> bytes:
    """SHA-256."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
