"""Text leaves when it fills the window or its oldest token has waited long enough, whichever is first.

The rules, in the order they are asked:

1. What is no piece, or no neighbour of its choice's run, lets the runs go and goes itself, as it came.
2. The first text of a choice leaves at once, and so does what has no text and would have nothing to wait with.
3. A run leaves when it holds `window.tokens`, unless the client does not read: then it grows.
4. A run leaves at once when its next token is not expected before its deadline: waiting would be in vain.
5. A run leaves at its deadline, `window.delay` after its oldest token came.

Each choice has a run of its own. A run of one piece leaves byte for byte.
"""

from gateway.buffer.coalesce import pieces
from gateway.buffer.coalesce.pieces import Piece
from gateway.buffer.coalesce.run import Choice, Run
from gateway.buffer.coalesce.strategy import NOTHING, Window
from gateway.buffer.coalesce.template import Template, Templates
from gateway.buffer.outbox import Outbox
from gateway.telemetry import FlushReason
from gateway.wire import chunks, sse
from gateway.wire.chunks import Reading

AROUND = 34
"""Bytes around the head and tail of a chunk with one short token: 14 for `data: `, the blank line and the framing of an
HTTP chunk, 20 for the text. The end of a stream is longer: a chunk with a finish_reason is no shorter than one with a
token, and 24 bytes of `[DONE]` and the last HTTP chunk follow it."""

WORTH_READING = 2
"""Tokens that are so many bytes: what is left in the kernel is one that would be held anyway."""

LARGE = 16 * 1024
"""Bytes of a run that leaves whatever it holds: nobody would see it stutter, and it would fill the buffer."""

SOON = (1, 0.0)
"""What may wait while the rhythm or the form of a stream is not known yet, or there are several choices."""


class WindowStrategy:
    """The window. `learns`: chunks that repeat are recognised without reading their JSON."""

    def __init__(self, window: Window, outbox: Outbox, *, learns: bool = True) -> None:
        self._tokens = window.tokens
        self._delay = window.delay
        self._outbox = outbox
        self._learns = learns
        self._choices: dict[int, Choice] = {}
        self._only: Choice | None = None  # the choice, where there is one only
        self._open: list[Run] = []  # the oldest first
        self._templates = Templates()
        self.reader_busy = False
        self.pending = 0
        self.since: float | None = None

    def match(self, data: bytes, now: float) -> int:  # noqa: D102 - the protocol says it
        found = self._templates.find(data)
        if found is None:
            return 0
        template, text = found
        choice = self._choices[template.choice]
        run = choice.run
        if run is None or run.key is not template.key:
            run = self._run(choice, template.key, data, now)
        run.template = template
        run.texts.append(text)
        self._grew(run, 1, len(data), now)
        return 1

    def match_all(self, data: bytes, now: float) -> int:  # noqa: D102
        template = self._templates.latest
        pieces = None if template is None else template.pieces(data)
        if template is None or pieces is None:
            return 0
        choice = self._choices[template.choice]
        count = len(pieces)
        choice.gap.came(now, count, apart=self.since is not None)
        while pieces:
            reason = self._at_once(choice, len(pieces), now)
            if reason is None:
                part = self._held(choice, template, pieces, len(data) // count, now)
            else:
                part = pieces[: self._tokens]
                self._outbox.put(template.event(part), len(part), reason)
            pieces = pieces[len(part) :]
        return count

    def _at_once(self, choice: Choice, tokens: int, now: float) -> FlushReason | None:
        """Why text that has just come does not wait; None if it does, or if other text is before it."""
        if choice.run is not None or self.reader_busy:
            return None
        if tokens >= self._tokens:
            return FlushReason.TOKENS
        usual, waits_since = choice.gap.usual, now if self.since is None else self.since
        return FlushReason.LONE if usual is not None and now + usual > waits_since + self._delay else None

    def _held(self, choice: Choice, template: Template, pieces: list[bytes], size: int, now: float) -> list[bytes]:
        """Adds to the run of a choice what it has room for, which is returned. `size`: bytes of one event."""
        run = choice.run
        if run is None or run.key is not template.key:
            run = self._run(choice, template.key, b"", now)
        run.template = template
        part = pieces if self.reader_busy else pieces[: max(1, self._tokens - run.tokens)]
        run.texts += [piece.decode() for piece in part]
        self._hold(run, len(part), size * len(part))
        return part

    def add(self, reading: Reading, now: float) -> None:  # noqa: D102
        is_piece = self._open or (reading.text and not reading.opens)  # else it goes, and is not looked at any closer
        piece = pieces.piece_of(reading) if is_piece else None
        if piece is None or not self._join(piece, reading, now):
            self._go_alone(reading, now)

    def due(self, now: float) -> bool:  # noqa: D102
        return not self.reader_busy and any(self._why(run, now) for run in self._open)

    def collect(self, now: float) -> None:  # noqa: D102
        if self._open and not self.reader_busy:
            for run in self._open[:]:
                reason = self._why(run, now)
                if reason is not None:
                    self._leave(run, reason)

    def _why(self, run: Run, now: float) -> FlushReason | None:
        """Why a run leaves; None if it waits."""
        if run.tokens >= self._tokens:
            return FlushReason.TOKENS
        expected = run.choice.gap.expected
        if expected is not None and expected > run.deadline:
            return FlushReason.LONE
        return FlushReason.DELAY if now >= run.deadline else None

    def wake_at(self) -> float | None:  # noqa: D102
        return self._open[0].deadline if self._open and not self.reader_busy else None

    def may_wait(self) -> tuple[int, float]:  # noqa: D102
        only = self._only
        usual = None if only is None else only.gap.usual
        template = self._templates.latest
        if usual is None or self.reader_busy or template is None:
            return SOON if self._choices else NOTHING
        if usual >= self._delay:
            return NOTHING
        fills = usual * self._tokens <= self._delay
        return template.least + AROUND, usual * max(0, self._tokens - WORTH_READING) if fills else 0.0

    def flush(self, reason: FlushReason) -> None:  # noqa: D102
        for run in self._open[:]:
            self._leave(run, reason)

    def _join(self, piece: Piece, reading: Reading, now: float) -> bool:
        """Whether the piece found a run to be in, or made one."""
        choice = self._choice(piece.choice)
        text = piece.text
        if not text:
            return self._join_silently(choice, piece, reading, now)
        if choice.first is not None:
            self._look_back(choice, choice.first)
        if (piece.key != choice.key or not piece.plain) and not pieces.is_exact(reading.data):
            return False
        if piece.key != choice.key:
            choice.key = piece.key
        elif piece.plain and self._learns:
            self._templates.learn(reading.data, piece)
        run = self._run(choice, piece.key, reading.data, now)
        run.add(piece)
        run.texts.append(text)
        if choice.index in reading.opens:
            self._grew(run, reading.tokens, len(reading.data), now, FlushReason.FIRST)
        else:
            self._grew(run, reading.tokens, len(reading.data), now)
        return True

    def _join_silently(self, choice: Choice, piece: Piece, reading: Reading, now: float) -> bool:
        """A piece without text joins what is held, if it is the same but for its text; alone it is not held.

        If its delta is empty, it needs to bring something else.
        """
        run = choice.run
        if run is None:
            return False
        if piece.name:
            if piece.key != run.key:
                return False
        elif piece.plain or run.piece is None or not run.piece.frames(piece):
            return False
        run.add(piece)
        run.texts.append("")
        self._grew(run, reading.tokens, len(reading.data), now)
        return True

    @staticmethod
    def _look_back(choice: Choice, first: Reading) -> None:
        """Reads of a choice's first text what the next one is compared with; before, nobody was to wait for that."""
        choice.first = None
        piece = pieces.piece_of(first)
        if piece is not None and piece.text and pieces.is_exact(first.data):
            choice.key = piece.key

    def _choice(self, index: int) -> Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(index)
            self._only = choice if len(self._choices) == 1 else None
        return choice

    def _run(self, choice: Choice, key: bytes, data: bytes, now: float) -> Run:
        """The run that a piece with this key belongs to: the one that is open, or a new one after it."""
        run = choice.run
        if run is not None:
            if run.key == key:
                return run
            self._leave(run, FlushReason.BOUNDARY)
        came = now if self.since is None else self.since
        run = choice.run = Run(choice, key, data, came + self._delay)
        self._open.append(run)
        return run

    def _grew(self, run: Run, tokens: int, size: int, now: float, reason: FlushReason | None = None) -> None:
        """Counts what was added to a run. It leaves if there is a `reason`, or if it has filled the window."""
        run.choice.gap.came(now, apart=self.since is not None)
        self._hold(run, tokens, size, reason)

    def _hold(self, run: Run, tokens: int, size: int, reason: FlushReason | None = None) -> None:
        run.tokens += tokens
        run.size += size
        self.pending += size
        if reason is not None:
            self._leave(run, reason)
        elif (run.tokens >= self._tokens or run.size >= LARGE) and not self.reader_busy:
            self._leave(run, FlushReason.TOKENS)

    def _leave(self, run: Run, reason: FlushReason) -> None:
        run.choice.run = None
        self._open.remove(run)
        self.pending -= run.size
        self._outbox.put(sse.encode(run.event()), run.tokens, reason)

    def _go_alone(self, reading: Reading, now: float) -> None:
        self.flush(FlushReason.END if reading.last else FlushReason.BOUNDARY)
        reason = None
        if reading.text or reading.tokens:
            reason = FlushReason.FIRST if reading.opens else FlushReason.BOUNDARY
        self._outbox.put(sse.encode(reading.data, reading.name), reading.tokens, reason)
        if reason is not None:
            for index, _ in chunks.choices_of(reading.body or {}):
                choice = self._choice(index)
                choice.gap.came(now)
                if index in reading.opens:
                    choice.first = reading
