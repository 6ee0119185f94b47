"""Kernels that are compiled when a batch of a new size is met. Pure: time is an argument, seconds of one clock.

Sizes count up to the next power of two, as an engine pads its batches. Whoever is admitted while one is compiled waits
for it; what runs goes on.
"""


class Kernels:
    """What one engine has compiled since its start.

    Attributes:
        compiled: how often a batch had a size that was new.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self._sizes: set[int] = set()
        self._until = 0.0

    def wait(self, batch: int, now: float, cost: float) -> float:
        """Seconds that requests have to wait which make a batch of so many; a size that is new costs `cost` of them."""
        size = 1 << max(0, batch - 1).bit_length()
        if cost and size not in self._sizes:
            self._sizes.add(size)
            self.compiled += 1
            self._until = max(self._until, now) + cost
        return max(0.0, self._until - now)
