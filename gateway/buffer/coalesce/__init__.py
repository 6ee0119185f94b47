"""How events become fewer: one protocol, a file for each strategy, and their registry.

Whatever a strategy holds leaves with `flush`; whatever it does not understand leaves at once, byte for byte, after all
that it holds.
"""

from collections.abc import Callable, Mapping
from functools import partial

from gateway.buffer.coalesce.passthrough import Passthrough
from gateway.buffer.coalesce.strategy import NOTHING, Strategy, Window
from gateway.buffer.coalesce.window import WindowStrategy
from gateway.buffer.outbox import Outbox

STRATEGIES: Mapping[str, Callable[[Window, Outbox], Strategy]] = {
    "window": WindowStrategy,
    "window-json": partial(
        WindowStrategy, learns=False
    ),  # the same by the long way: what the short one is held against
    "passthrough": Passthrough,
}

__all__ = ["NOTHING", "STRATEGIES", "Strategy", "Window"]
