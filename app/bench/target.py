"""An address, and the bytes of a request to it."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

LANE = "X-Tokenlane-Lane"
_SHOWN = frozenset({"x-tokenlane-lane", "x-tokenlane-buffer", "x-session-id"})
"""Headers whose values may be recorded; others may be secret."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go.

    Args:
        scheme, host, port: of the address.
        base: path of the root, without `/v1`.
        headers: (name, value) that every request gets.
    """

    scheme: str
    host: str
    port: int
    base: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """Of the root."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.base}"

    @property
    def described(self) -> str:
        """The address and the headers, with values that may be secret masked."""
        told = [f"{name}: {shown(name, value)}" for name, value in self.headers]
        return ", ".join([self.url, *told])

    def tls(self) -> ssl.SSLContext | None:
        """What an encrypted connection needs; None for one that is not."""
        return ssl.create_default_context() if self.scheme == "https" else None

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request for a path below the root."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"{method} {self.base}{path} HTTP/1.1", f"Host: {host}:{self.port}", "Accept: */*"]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def target(url: str, headers: Sequence[tuple[str, str]] = (), lane: str | None = None) -> Target:
    """The target of a URL, with or without `/v1` at its end.

    Raises:
        ValueError: it is no http or https URL with a host, or a header cannot be sent.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url}: is no http or https URL")
    parts.hostname.encode("idna")  # a UnicodeError is a ValueError
    port = parts.port or (443 if parts.scheme == "https" else 80)
    sent = (*headers, *(((LANE, lane),) if lane else ()))
    for name, value in sent:
        if not name or not (name + value).isprintable() or any(ord(c) > 255 for c in name + value) or ":" in name:
            raise ValueError(f"the header {name!r} cannot be sent")
    return Target(parts.scheme, parts.hostname, port, parts.path.rstrip("/").removesuffix("/v1"), sent)


def shown(name: str, value: str) -> str:
    """The value of a header as it may be recorded."""
    return value if name.lower() in _SHOWN else "***"
