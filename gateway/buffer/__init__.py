"""The token buffer: fewer events, the same meaning. A pure state machine; `machine` holds its rules."""

from gateway.buffer.coalesce import STRATEGIES, Window
from gateway.buffer.endings import DIALECTS
from gateway.buffer.machine import TokenBuffer

__all__ = ["DIALECTS", "STRATEGIES", "TokenBuffer", "Window"]
