"""Settings of files and batches."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from config.section import Section
from config.service import MIB

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds by the letter of a completion window."""


def window_seconds(window: str) -> int:
    """The length of a completion window such as 24h. Raises ValueError."""
    if not (found := re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", window)):
        raise ValueError("must be a number and one of s, m, h, d: 24h")
    return int(found[1]) * UNITS[found[2]]


def _length_is_known(window: str) -> str:
    window_seconds(window)
    return window


class BatchSettings(Section):
    """Files and batches. The database is made with the first file."""

    data_dir: Path = Field(
        default=Path("data"),
        description="Folder of files and of the database. Gateways that share a database share it too.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="postgresql://user:password@host/name or sqlite:///file. None: SQLite in data_dir.",
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=65536, description="Lines that run at once at most. None: the batch lane's slots."
    )
    attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Requests that are made for a line whose engine fails, at most; waiting does not count.",
    )
    completion_windows: tuple[Annotated[str, AfterValidator(_length_is_known)], ...] = Field(
        default=("24h",), min_length=1, description="Windows that a batch may ask for: a number and s, m, h or d."
    )
    file_bytes: int = Field(default=200 * MIB, ge=1024, le=4096 * MIB, description="Bytes of an uploaded file.")
    max_lines: int = Field(default=50_000, ge=1, le=10_000_000, description="Requests of a batch.")
    line_bytes: int = Field(default=20 * MIB, ge=1024, le=1024 * MIB, description="Bytes of one request of a batch.")
    file_ttl_s: int = Field(
        default=2_592_000, ge=3600, le=315_360_000, description="Seconds that a file is kept which names no expiry."
    )
    lease_s: float = Field(
        default=60,
        ge=1,
        le=3600,
        description="Seconds after which others take over what a dead gateway worked on.",
    )
    poll_s: float = Field(
        default=2, gt=0, le=600, description="Seconds between two looks for what another gateway has left."
    )

    @property
    def url(self) -> str:
        """Of the database: files, batches, keys."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data_dir.absolute() / 'batch.sqlite3'}"
