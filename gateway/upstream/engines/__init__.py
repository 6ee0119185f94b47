"""Kinds of engine: where they answer what, and what they may be told. To add one: a file here and a line below."""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.upstream.engines.kind import EngineKind
from gateway.upstream.engines.sim import Sim
from gateway.upstream.engines.vllm import VLLM

KINDS: Mapping[str, EngineKind] = MappingProxyType({kind.name: kind for kind in (VLLM(), Sim())})

__all__ = ["KINDS", "EngineKind"]
