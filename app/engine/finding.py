"""What is to be said about one option."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """The engine does not start."""
    WARNING = "warning"
    """It starts, and likely not as meant."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say.

    Args:
        level: how bad it is.
        option: the words it is about.
        message: what is the matter.
        successor: what to write instead; empty: nothing.
    """

    level: Level
    option: str
    message: str
    successor: str = ""

    def __str__(self) -> str:
        """A line for people."""
        instead = f" -> {self.successor}" if self.successor else ""
        return f"{self.level}: {self.option}: {self.message}{instead}"
