"""The bytes of files, in a folder: a file is there whole or not at all.

A new file is written under a name of its own that ends in `.part`, brought to the disk, then renamed: whatever kills
the process, no half file has the name of a whole one. Everything here blocks; callers run it in a thread.
"""

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

PART = ".part"
ABANDONED_S = 86_400.0
"""Age of a `.part` that nobody writes any more."""


class Blobs:
    """A folder of files by id.

    Args:
        folder: is made when it is first needed. Gateways that share a database share it too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, file_id: str) -> Path:
        """Where a file is. Raises ValueError for what cannot be an id."""
        if not file_id.replace("-", "").replace("_", "").isalnum() or not file_id.isascii():
            raise ValueError("not an id of a file")
        return self._folder / file_id

    def write(self, file_id: str) -> "BlobWriter":
        """A new file; it takes the place of one with the same id. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return BlobWriter(self.path(file_id))

    def open(self, file_id: str) -> BinaryIO:
        """The file, to be read. Raises FileNotFoundError."""
        return self.path(file_id).open("rb")

    def read(self, file_id: str, start: int, length: int) -> bytes:
        """A piece of the file. Raises FileNotFoundError."""
        with self.open(file_id) as file:
            return os.pread(file.fileno(), length, start)

    def delete(self, file_id: str) -> None:
        """Removes the file, if it is there."""
        self.path(file_id).unlink(missing_ok=True)

    def aged(self, seconds: float) -> list[str]:
        """The ids of files that were last written at least that long ago; removes what was left half written."""
        now = time.time()
        found = []
        for path, changed in self._files():
            if path.suffix == PART and now - changed >= ABANDONED_S:
                path.unlink(missing_ok=True)
            elif path.suffix != PART and now - changed >= seconds:
                found.append(path.name)
        return found

    def _files(self) -> Iterator[tuple[Path, float]]:
        if not self._folder.is_dir():
            return
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.is_file():
                    yield Path(entry.path), entry.stat().st_mtime


class BlobWriter:
    """A file that is being written; without `commit` nothing of it stays. Every call may raise OSError.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._part = target.with_name(f"{target.name}.{secrets.token_hex(4)}{PART}")
        self._file = self._part.open("xb")
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.discard()

    def write(self, data: bytes) -> None:
        """Appends."""
        self._file.write(data)
        self.size += len(data)

    def commit(self) -> None:
        """Makes it a file: on the disk, under its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self._target)
        folder = os.open(self._target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Removes what was not committed."""
        try:
            self._file.close()  # what it still holds may not fit on the disk
        except OSError:
            pass
        finally:
            self._part.unlink(missing_ok=True)
