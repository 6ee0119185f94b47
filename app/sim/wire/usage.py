"""Token counts, in the three forms that vLLM gives them."""

from typing import Any

FINGERPRINT = "vllm-0.32.0-51a11a7e"


def stream_usage(prompt: int, generated: int) -> dict[str, Any]:
    """What every `usage` begins with."""
    return {"prompt_tokens": prompt, "total_tokens": prompt + generated, "completion_tokens": generated}


def whole_usage(prompt: int, generated: int, created_cache: int | None, reasoned: int | None) -> dict[str, Any]:
    """`usage` of an answer that is not streamed."""
    return stream_usage(prompt, generated) | {
        "prompt_tokens_details": {
            "cached_tokens": 0,
            "created_cache_tokens": created_cache,
            "multimodal_tokens": None,
        },
        "completion_tokens_details": None if reasoned is None else {"reasoning_tokens": reasoned},
    }
