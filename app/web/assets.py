"""The page's files, read once and kept in memory with their headers.

Every asset's address holds the digest of the whole folder: `/ui/assets/DIGEST/js/main.js`. So a browser may keep it for
ever, and a page never mixes modules of two versions. Only what is in the folder when it is read can be asked for: a
path is looked up in a table and never reaches the file system.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
INDEX = "index.html"
PLACEHOLDER = b"@assets@"
"""Stands in index.html for the path of the folder."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""What may be served, and as what."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its body, the same compressed, its type, and the entity tag of each."""

    body: bytes
    gzipped: bytes
    content_type: str
    etag: str

    def chosen(self, accept_encoding: str) -> tuple[bytes, str, dict[str, str]]:
        """Body, entity tag and headers for a client that accepts these encodings."""
        headers = {"vary": "accept-encoding"}
        if len(self.gzipped) < len(self.body) and _takes_gzip(accept_encoding):
            return self.gzipped, f'"{self.etag}-gzip"', headers | {"content-encoding": "gzip"}
        return self.body, f'"{self.etag}"', headers


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by their path in the folder, and the digest of all of them."""

    files: Mapping[str, Asset]
    digest: str

    @property
    def index(self) -> Asset:
        """The page itself."""
        return self.files[INDEX]


def load(folder: Path = FOLDER) -> Assets:
    """Reads the folder. Blocks for some ten milliseconds: read it in a thread."""
    bodies = dict(_served(folder))
    digest = _digest(b"".join(path.encode() + b"\0" + body for path, body in bodies.items()))
    bodies[INDEX] = bodies[INDEX].replace(PLACEHOLDER, f"ui/assets/{digest}".encode())
    return Assets({path: _asset(path, body) for path, body in bodies.items()}, digest)


def _served(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in TYPES and path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _asset(path: str, body: bytes) -> Asset:
    return Asset(body, gzip.compress(body, 9, mtime=0), TYPES[Path(path).suffix], _digest(body))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether `gzip` is named and not refused with q=0 (RFC 9110, 12.5.3)."""
    for part in accept_encoding.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").lower() not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
