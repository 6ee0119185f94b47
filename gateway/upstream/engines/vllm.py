"""vLLM's OpenAI server."""

TRACING = frozenset({"x-request-id", "traceparent"})
"""What ties a request to its trace and says nothing else of the client."""


class VLLM:
    """vLLM; see `EngineKind`."""

    name = "vllm"
    health_path = "/health"
    models_path = "/v1/models"

    def forwards(self, header: str) -> bool:
        """See `EngineKind.forwards`."""
        return header.lower() in TRACING
