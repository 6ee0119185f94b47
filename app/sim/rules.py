"""The checks of a generation request, with the words of vLLM 0.32."""

from typing import Any

from app.sim.refusals import bad_request, unknown_model
from app.sim.settings import SimSettings
from app.sim.vocabulary import decode, encode

MAX_LOGPROBS = 20
MAX_CHOICES = 128
Tools = tuple[tuple[str, dict[str, Any]], ...]


def or_default(value: int | None, default: int) -> int:
    """The value, or the default for null."""
    return default if value is None else value


def check_model(fields: dict[str, Any], settings: SimSettings) -> None:
    """A model that is not served is a 404; no model at all is fine.

    Raises:
        Refused: otherwise.
    """
    model = fields.get("model")
    if model and model != settings.model:
        raise unknown_model(model, settings.model)


def check_stream_options(fields: dict[str, Any]) -> None:
    """`stream_options` need `stream`.

    Raises:
        Refused: otherwise.
    """
    if fields.get("stream_options") and not fields.get("stream"):
        raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")


def check_length(prompt: int, limit: int | None, longest: int, *, least: int) -> None:
    """Prompt and answer fit into the model.

    Raises:
        Refused: otherwise.
    """
    if prompt > longest:
        raise bad_request(
            f"This model's maximum context length is {longest} tokens. However, your prompt contains at least "
            f"{longest + 1} input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt.",
            "input_tokens",
            longest + 1,
        )
    if limit is None:
        return
    if limit < least:
        raise bad_request(f"max_tokens must be at least {least}, got {limit}.", "max_tokens", limit)
    if limit > longest:
        raise bad_request(
            f"max_tokens={limit} cannot be greater than max_model_len={longest}. Please request fewer output tokens.",
            "max_tokens",
            limit,
        )
    if prompt + limit > longest:
        raise bad_request(
            f"This model's maximum context length is {longest} tokens. However, you requested {limit} output tokens "
            f"and your prompt contains at least {longest - limit + 1} input tokens, for a total of at least "
            f"{longest + 1} tokens. Please reduce the length of the input prompt or the number of requested output "
            "tokens.",
            "input_tokens",
            longest - limit + 1,
        )


def check_sampling(fields: dict[str, Any], logprobs: int | None) -> None:
    """n, temperature, top_p and logprobs are within their bounds.

    Raises:
        Refused: otherwise.
    """
    n, temperature, top_p = or_default(fields.get("n"), 1), fields.get("temperature"), fields.get("top_p")
    if n < 1:
        raise bad_request(f"n must be at least 1, got {n}.")
    if n > MAX_CHOICES:
        raise bad_request(f"n must be at most {MAX_CHOICES}, got {n}.", "n", n)
    if temperature is not None and temperature < 0:
        raise bad_request(f"temperature must be non-negative, got {temperature}.", "temperature", temperature)
    if top_p is not None and not 0 < top_p <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    if temperature == 0 and n > 1:
        raise bad_request(f"n must be 1 when using greedy sampling, got {n}.")
    if logprobs is not None and not 0 <= logprobs <= MAX_LOGPROBS:
        raise bad_request(
            f"Requested sample logprobs of {logprobs}, which is greater than max allowed: {MAX_LOGPROBS}",
            "logprobs",
            logprobs,
        )


def text_of(message: object) -> str:
    """The text of a message; vLLM takes any role and no content at all."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def read_stops(stop: object) -> tuple[str, ...]:
    """One stop string or several."""
    stops = stop if isinstance(stop, list) else [stop]
    return tuple(text for text in stops if isinstance(text, str) and text)


def read_tools(fields: dict[str, Any]) -> tuple[str | None, Tools]:
    """What `tool_choice` comes to, and the functions that may be called, the named one first.

    Raises:
        Refused: otherwise.
    """
    functions = [tool.get("function") for tool in fields.get("tools") or () if isinstance(tool, dict)]
    tools = [
        (str(function.get("name")), function.get("parameters") or {})
        for function in functions
        if isinstance(function, dict)
    ]
    choice = fields.get("tool_choice")
    if isinstance(choice, dict):
        name = (choice.get("function") or {}).get("name")
        named = [tool for tool in tools if tool[0] == name]
        if not named:
            raise bad_request(
                "The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice"
            )
        return "named", tuple(named)
    if not tools or choice == "none":
        return None, ()
    return ("required" if choice == "required" else "auto"), tuple(tools)


def read_prompts(prompt: object) -> tuple[tuple[int, ...], ...]:
    """Text, token ids, or a list of either."""
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return tuple(_read_prompt(one) for one in prompt)
    return (_read_prompt(prompt),)


def _read_prompt(prompt: object) -> tuple[int, ...]:
    if isinstance(prompt, str) and prompt:
        return encode(prompt)
    ids = tuple(i for i in prompt if isinstance(i, int)) if isinstance(prompt, list) else ()
    if not ids:
        raise bad_request("You must pass prompt_token_ids or prompt with at least one token.", "prompt", bare=True)
    for token_id in ids:
        if decode(token_id) is None:
            raise bad_request(f"Token id {token_id} is out of vocabulary")
    return ids
