"""The simulated engine: vLLM's wire format at a set pace, steered by headers of its own."""

from gateway.upstream.engines.vllm import VLLM


class Sim:
    """The simulator; see `EngineKind`."""

    name = "sim"
    health_path = VLLM.health_path
    models_path = VLLM.models_path

    def forwards(self, header: str) -> bool:
        """See `EngineKind.forwards`."""
        return header.lower().startswith("x-sim-") or VLLM().forwards(header)
