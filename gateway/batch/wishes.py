"""What a client may wish of a file or a batch, field by field. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from gateway.errors import InvalidRequest

MIN_TTL_S, MAX_TTL_S = 3600, 2_592_000
"""Bounds of `expires_after.seconds`."""

METADATA_PAIRS, METADATA_KEY, METADATA_VALUE = 16, 64, 512
"""Pairs, and characters of their keys and values."""


def one_of(wish: Mapping[str, Any], name: str, offered: Collection[str]) -> str:
    """A field that is one of what is offered. Raises InvalidRequest."""
    value = wish.get(name)
    if not isinstance(value, str) or value not in offered:
        raise InvalidRequest(f"{name} must be one of: {', '.join(offered)}.", param=name)
    return value


def metadata_of(metadata: Any) -> dict[str, str] | None:
    """The metadata of a batch: at most 16 pairs of strings. Raises InvalidRequest."""
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidRequest("metadata must be an object of strings.", param="metadata")
    if len(metadata) > METADATA_PAIRS:
        raise InvalidRequest(f"metadata has more than {METADATA_PAIRS} pairs.", param="metadata")
    if any(len(key) > METADATA_KEY or len(value) > METADATA_VALUE for key, value in metadata.items()):
        message = f"metadata has a key above {METADATA_KEY} or a value above {METADATA_VALUE} characters."
        raise InvalidRequest(message, param="metadata")
    return metadata


def output_ttl(policy: Any) -> int | None:
    """The seconds of `output_expires_after`, None where there is none. Raises InvalidRequest."""
    if policy is None:
        return None
    if not isinstance(policy, dict):
        raise InvalidRequest("output_expires_after must be an object.", param="output_expires_after")
    return _ttl(policy.get("anchor"), policy.get("seconds"), "output_expires_after")


def form_ttl(fields: Mapping[str, str]) -> int | None:
    """The seconds of `expires_after` in a form, None where there is none. Raises InvalidRequest."""
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    return _ttl(anchor, int(seconds) if seconds and seconds.isdecimal() else None, "expires_after")


def _ttl(anchor: Any, seconds: Any, param: str) -> int:
    if anchor != "created_at":
        raise InvalidRequest(f"{param}.anchor must be 'created_at'.", param=param)
    if not isinstance(seconds, int) or not MIN_TTL_S <= seconds <= MAX_TTL_S:
        raise InvalidRequest(f"{param}.seconds must be from {MIN_TTL_S} to {MAX_TTL_S}.", param=param)
    return seconds
