"""`tokenlane keys`: makes, lists and revokes the keys of clients. A running gateway knows of it within seconds."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from app.cli import sources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.key_store import KeyStore
    from config.settings import Settings
    from gateway.keys import Key, Rights

UNITS = {"m": 60, "h": 3600, "d": 86400}
NAME_LENGTH = 128


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `keys new`, `keys list` and `keys revoke`."""
    parser = commands.add_parser("keys", help="make, list or revoke the keys of clients")
    actions = parser.add_subparsers(required=True, metavar="new|list|revoke")
    new = actions.add_parser("new", help="make a key and show it once", description="Make a key and show it once.")
    new.add_argument("name", type=_name, help="for whom or for what it is")
    new.add_argument(
        "--lane", dest="lanes", action="append", metavar="LANE", help="a lane it may use (all); repeatable"
    )
    new.add_argument(
        "--model", dest="models", action="append", metavar="MODEL", help="a model it may ask for (all); repeatable"
    )
    new.add_argument("--rpm", dest="requests_per_minute", type=_count, metavar="N", help="requests a minute")
    new.add_argument("--tpm", dest="tokens_per_minute", type=_count, metavar="N", help="tokens a minute")
    new.add_argument("--parallel", type=_count, metavar="N", help="requests at once")
    new.add_argument("--batch-lines", type=_count, metavar="N", help="lines of batches that wait or run")
    new.add_argument("--expires", type=seconds, metavar="TIME", help="how long it is good: 90m, 12h, 30d")
    listing = actions.add_parser("list", help="show every key", description="Show every key, without its secret.")
    revoke = actions.add_parser("revoke", help="end a key", description="End a key, for good.")
    revoke.add_argument("key", help="its id, its name, or its first characters as the list shows them")
    for action, run in ((new, _new), (listing, _list), (revoke, _revoke)):
        sources.add_options(action)
        action.set_defaults(run=run)


def seconds(text: str) -> int:
    """The length of `90m`, `12h` or `30d`; raises ArgumentTypeError."""
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.isdecimal() or not int(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number and m, h or d, such as 30d")
    return int(number) * UNITS[unit]


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**53:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > NAME_LENGTH:
        raise argparse.ArgumentTypeError(f"a name has 1 to {NAME_LENGTH} characters that can be printed")
    return text.strip()


def _new(arguments: argparse.Namespace) -> int:
    return _with_store(arguments, lambda store, settings: _make(store, settings, arguments))


def _list(arguments: argparse.Namespace) -> int:
    return _with_store(arguments, lambda store, _: _show(store))


def _revoke(arguments: argparse.Namespace) -> int:
    return _with_store(arguments, lambda store, _: _end(store, arguments.key))


async def _make(store: "KeyStore", settings: "Settings", arguments: argparse.Namespace) -> int:
    from gateway.keys import mint
    from gateway.keys.sql import NameTaken

    unknown = [lane for lane in arguments.lanes or () if lane not in settings.lanes]
    if unknown:
        return _fail(f"there is no lane {unknown[0]}; there are {', '.join(settings.lanes)}")
    key, secret = mint(arguments.name, _rights(arguments), time.time())
    try:
        await store.add(key)
    except NameTaken:
        return _fail(f"there is a key {arguments.name!r}; revoke it, or take another name")
    print(f"{key.id}  {_described(key, time.time())}", file=sys.stderr)
    print("This is the key. It is shown this once:", file=sys.stderr)
    print(secret)
    return 0


def _rights(arguments: argparse.Namespace) -> "Rights":
    from gateway.keys import Rights

    return Rights(
        lanes=tuple(arguments.lanes) if arguments.lanes else None,
        models=tuple(arguments.models) if arguments.models else None,
        requests_per_minute=arguments.requests_per_minute,
        tokens_per_minute=arguments.tokens_per_minute,
        parallel=arguments.parallel,
        batch_lines=arguments.batch_lines,
        expires_at=time.time() + arguments.expires if arguments.expires else None,
    )


async def _show(store: "KeyStore") -> int:
    now = time.time()
    for key in await store.all():
        print(f"{key.id}  {key.prefix}...  {_state(key, now):<8}  {_described(key, now)}")
    return 0


async def _end(store: "KeyStore", wanted: str) -> int:
    key = await store.revoke(wanted, time.time())
    if key is None:
        return _fail(f"no key that is good has the id, name or beginning {wanted[:16]!r}")
    print(f"revoked {key.id} ({key.name})")
    return 0


def _state(key: "Key", now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expired(now) else "good"


def _described(key: "Key", now: float) -> str:
    parts = [key.name]
    for name, values in (("lanes", key.lanes), ("models", key.models)):
        if values is not None:
            parts.append(f"{name} {','.join(values)}")
    limits = (
        ("requests/min", key.requests_per_minute),
        ("tokens/min", key.tokens_per_minute),
        ("at once", key.parallel),
        ("lines of batches", key.batch_lines),
    )
    parts += [f"{limit} {name}" for name, limit in limits if limit is not None]
    if key.expires_at is not None and not key.expired(now):
        parts.append(f"until {time.strftime('%Y-%m-%d %H:%M', time.gmtime(key.expires_at))} UTC")
    return "; ".join(parts)


def _with_store(arguments: argparse.Namespace, act: "Callable[[KeyStore, Settings], Awaitable[int]]") -> int:
    """Opens the database, does it, and closes it; 1 where that cannot be done."""
    if (loaded := sources.load(arguments)) is None:
        return 1
    import asyncio

    from app.key_store import KeyStore
    from gateway.batch.store import StoreUnavailable

    settings = loaded.settings
    settings.batch.data_dir.mkdir(parents=True, exist_ok=True)

    async def run() -> int:
        store = KeyStore(settings.batch.url)
        try:
            return await act(store, settings)
        except StoreUnavailable as error:
            return _fail(f"the database of keys cannot be used: {error}")
        finally:
            await store.aclose()

    return asyncio.run(run())


def _fail(message: str) -> int:
    print(f"tokenlane: {message}", file=sys.stderr)
    return 1
