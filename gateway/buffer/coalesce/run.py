"""What waits for one choice: neighbouring pieces, in order, and the one event they become."""

from typing import TYPE_CHECKING

from gateway.buffer.coalesce.pieces import Piece
from gateway.buffer.gap import Gap

if TYPE_CHECKING:
    from gateway.buffer.coalesce.template import Template
    from gateway.wire.chunks import Reading


class Choice:
    """What is kept of one choice.

    Attributes:
        first: its first text, which has left without a closer look, until the next one is compared with it.
        key: of its latest piece.
    """

    __slots__ = ("first", "gap", "index", "key", "run")

    def __init__(self, index: int) -> None:
        self.index = index
        self.run: Run | None = None
        self.gap = Gap()
        self.first: Reading | None = None
        self.key = b""


class Run:
    """Neighbouring pieces that have not left yet.

    Attributes:
        data: the first piece, as it came; empty if its template writes the same.
        deadline: when its oldest token has waited long enough.
        tokens: how many it holds; `size` is the bytes they came in.
        piece: the first piece, which takes in what the others bring; None if a template has recognised them all.
        template: what the pieces are written with again; None if they have to be built.
    """

    __slots__ = ("choice", "data", "deadline", "key", "piece", "size", "template", "texts", "tokens")

    def __init__(self, choice: Choice, key: bytes, data: bytes, deadline: float) -> None:
        self.choice = choice
        self.key = key
        self.data = data
        self.deadline = deadline
        self.size = 0
        self.tokens = 0
        self.texts: list[str] = []
        self.piece: Piece | None = None
        self.template: Template | None = None

    def add(self, piece: Piece) -> None:
        """Takes in a piece, but for its text."""
        if self.piece is None:
            self.piece = piece
        else:
            self.piece.absorb(piece)

    def event(self) -> bytes:
        """The pieces as the data of one event: of a single piece its own bytes."""
        if len(self.texts) == 1 and self.data:
            return self.data
        text = "".join(self.texts)
        if self.template is not None:
            return self.template.filled(text)
        if self.piece is None:
            raise ValueError("a run that nothing was added to")
        return self.piece.with_text(text)
