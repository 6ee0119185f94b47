"""How long a lane that cannot be asked is left alone. Pure: time is an argument."""


class Outage:
    """How long to wait for a lane that cannot be asked: from half a second, twice as long each time, up to `most`.

    Many lines that fail in the same moment are one failure.
    """

    def __init__(self, *, first: float = 0.5, most: float = 30.0) -> None:
        self._first = first
        self._most = most
        self._failures = 0
        self.until = float("-inf")

    @property
    def on(self) -> bool:
        """Whether the lane has not answered since it failed; one line at a time tries it."""
        return self._failures > 0

    def failed(self, now: float, retry_after: float | None = None) -> None:
        """The lane could not be asked. `retry_after` is what it said itself, in seconds."""
        if now < self.until:
            return
        wait = min(self._most, self._first * 2 ** min(self._failures, 16))
        self._failures += 1
        self.until = now + max(wait, min(retry_after or 0.0, self._most))

    def ended(self) -> None:
        """The lane has answered."""
        self._failures = 0
        self.until = float("-inf")
