"""vLLM's OpenAI server."""

from collections.abc import Mapping

TRACE = "traceparent"
"""What ties a request to its trace and says nothing else of the client."""


class VLLM:
    """vLLM; see `EngineKind`."""

    name = "vllm"
    health_path = "/health"
    models_path = "/v1/models"

    def forwarded(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        """See `EngineKind.forwarded`."""
        return [(TRACE, headers[TRACE])] if TRACE in headers else []
