"""Keys, and the ring that requests are checked against."""

import time
from dataclasses import replace

import pytest

from gateway.errors import KeyMissing, KeyRejected, KeysUnavailable
from gateway.keys import Key, Keyring, Rights, mint
from gateway.keys.key import PREFIX

NOW = 1_800_000_000.0


def made(name: str = "team", **rights: object) -> tuple[Key, str]:
    return mint(name, Rights(**rights), NOW)  # type: ignore[arg-type]


def ring(*keys: Key, required: bool = False) -> Keyring:
    full = Keyring(required=required)
    full.take(keys)
    return full


def test_a_secret_is_found_in_no_field_of_its_key() -> None:
    key, secret = made()
    assert secret.startswith(key.prefix)
    assert len(secret) - len(key.prefix) == 35
    assert secret not in repr(key)
    assert secret[PREFIX:] not in f"{key!r} {key.digest!r}"


def test_a_key_is_given_for_its_secret_and_for_no_other() -> None:
    (key, secret), (other, _) = made(), made("other")
    full = ring(key, other)
    assert full.check(secret, NOW) is key
    for wrong in (secret[:-1], secret + "x", secret.swapcase(), other.prefix + secret[PREFIX:], "tl-", "é", "\udcff"):
        with pytest.raises(KeyRejected) as caught:
            full.check(wrong, NOW)
        assert secret[PREFIX:] not in str(caught.value)


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_key_is_told_apart_from_a_wrong_one(nothing: str | None) -> None:
    with pytest.raises(KeyMissing):
        ring(made()[0]).check(nothing, NOW)


def test_a_key_is_good_until_it_expires_or_is_revoked() -> None:
    key, secret = made(expires_at=NOW + 10)
    full = ring(key)
    assert full.check(secret, NOW + 9.9) is key
    with pytest.raises(KeyRejected, match="expired"):
        full.check(secret, NOW + 10)
    full.take([replace(key, revoked_at=NOW)])
    with pytest.raises(KeyRejected, match="not valid"):
        full.check(secret, NOW)


def test_a_ring_is_open_only_once_it_is_known_that_there_never_was_a_key() -> None:
    unread = Keyring()
    assert not unread.open
    with pytest.raises(KeysUnavailable):
        unread.check("tl-x", NOW)
    assert ring().open
    assert not ring(required=True).open
    assert not ring(replace(made()[0], revoked_at=NOW)).open


def test_rights_bound_lanes_and_models_and_no_rights_are_all() -> None:
    free, bound = made()[0], made(lanes=("batch",), models=("m",))[0]
    assert free.may_use("any")
    assert free.may_ask(None)
    assert not bound.may_use("lowlatency")
    assert bound.may_ask("m")
    assert not bound.may_ask(None), "an engine answers a request without a model with its own"
    assert not free.limited
    assert made(parallel=1)[0].limited


def test_a_check_costs_microseconds() -> None:
    """A bound wide enough for a busy machine; the figure is in docs/operations.md."""
    keys = [made(str(number)) for number in range(1000)]
    full = ring(*(key for key, _ in keys))
    secret = keys[500][1]
    started = time.perf_counter()
    for _ in range(2000):
        full.check(secret, NOW)
    assert (time.perf_counter() - started) / 2000 < 0.0005
