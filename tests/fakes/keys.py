"""Keys for tests: made as `tokenlane keys new` makes them, in the database of a gateway's settings."""

import time
from pathlib import Path
from typing import Any

import httpx

from app.key_store import KeyStore
from config.settings import Settings
from gateway.keys import Key, Rights, mint


def kept_in(folder: Path) -> dict[str, Any]:
    """Settings whose database is in a folder of the test."""
    return {"batch": {"data_dir": folder}, "keys": {"refresh_s": 0.05}}


async def new_key(folder: Path, name: str = "team", **rights: Any) -> tuple[Key, str]:
    """A key that is kept, and its secret."""
    store = KeyStore(Settings(batch={"data_dir": folder}).batch.url)
    key, secret = mint(name, Rights(**rights), time.time())
    try:
        await store.add(key)
    finally:
        await store.aclose()
    return key, secret


async def revoke(folder: Path, wanted: str) -> None:
    """Revokes a key."""
    store = KeyStore(Settings(batch={"data_dir": folder}).batch.url)
    try:
        assert await store.revoke(wanted, time.time())
    finally:
        await store.aclose()


def bearer(secret: str) -> dict[str, str]:
    """The header that proves a key."""
    return {"authorization": f"Bearer {secret}"}


def chat(**more: Any) -> dict[str, Any]:
    """A small request."""
    return {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}], **more}


async def asks(http: httpx.AsyncClient, secret: str, **more: Any) -> httpx.Response:
    """Asks for a chat answer with a key."""
    return await http.post("/v1/chat/completions", json=chat(**more), headers=bearer(secret))
