"""Who takes a body, in tests."""

import asyncio
from collections.abc import Callable

from gateway.errors import EngineError


class RecordingSink:
    """Keeps everything; `over` is set at the end. `on_data` is called after each piece."""

    def __init__(self, on_data: Callable[[], None] = lambda: None) -> None:
        self.pieces: list[bytes] = []
        self.endings: list[EngineError | None] = []
        self.over = asyncio.Event()
        self._on_data = on_data

    @property
    def data(self) -> bytes:
        """All that came."""
        return b"".join(self.pieces)

    def received(self, data: bytes) -> None:
        assert data
        assert not self.endings
        self.pieces.append(data)
        self._on_data()

    def ended(self, error: EngineError | None) -> None:
        self.endings.append(error)
        self.over.set()
