"""JSON bodies as vLLM 0.32 writes them: the order of keys, and which nulls are there, are part of the format."""

from app.sim.wire.chat import ChatWire
from app.sim.wire.completions import CompletionsWire
from app.sim.wire.messages import MessagesWire
from app.sim.wire.responses import ResponsesWire

__all__ = ["ChatWire", "CompletionsWire", "MessagesWire", "ResponsesWire"]
