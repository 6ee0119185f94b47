"""The simulated engine: vLLM's wire format at a set pace, steered by headers of its own."""

from collections.abc import Mapping

from gateway.upstream.engines.vllm import VLLM


class Sim:
    """The simulator; see `EngineKind`."""

    name = "sim"
    health_path = VLLM.health_path
    models_path = VLLM.models_path

    def forwarded(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        """See `EngineKind.forwarded`."""
        return VLLM().forwarded(headers) + [field for field in headers.items() if field[0].startswith("x-sim-")]
