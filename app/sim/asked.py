"""A generation request: what was asked, checked in the order and with the words of vLLM 0.32."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.sim.refusals import bad_request
from app.sim.rules import (
    Tools,
    check_length,
    check_model,
    check_sampling,
    check_stream_options,
    or_default,
    read_prompts,
    read_stops,
    read_tools,
    text_of,
)
from app.sim.schema import CHAT, COMPLETIONS, MESSAGES, RESPONSES, read_fields, read_object
from app.sim.settings import SimSettings
from app.sim.vocabulary import decode, encode

_TEMPLATE = encode("You are a simulated engine. ")
_EFFORTS = {"none": 0, "minimal": 8, "low": 8, "medium": 24, "high": 48, "xhigh": 96}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    Args:
        chat: chat completions; else completions.
        prompts: token ids, one tuple a prompt; chat has one.
        echo: the texts of the prompts where the answer repeats them, else None.
        limit: the most tokens of a choice, as asked; None where the request does not say.
        room: tokens that fit behind the longest prompt.
        stops: strings that end a choice.
        logprobs: alternatives a token; None for no logprobs at all.
        choice: tool_choice, None where no tool may be called; "named" for one given function.
        tools: name and parameters of each function that may be called, the named one first.
        reasoning: tokens of reasoning that the body asks for; None where it does not speak of it.
        show_reasoning: include_reasoning.
        fields: the body as it came, for what an answer repeats of it.
    """

    chat: bool
    model: str
    stream: bool
    n: int
    prompts: tuple[tuple[int, ...], ...]
    echo: tuple[str, ...] | None
    limit: int | None
    room: int
    stops: tuple[str, ...]
    include_stop: bool
    stop_ids: frozenset[int]
    logprobs: int | None
    return_token_ids: bool
    tokens_as_ids: bool
    include_usage: bool
    continuous_usage: bool
    interval: int
    choice: str | None
    tools: Tools
    reasoning: int | None
    show_reasoning: bool
    priority: int
    request_id: str | None
    fields: Mapping[str, Any]

    @property
    def sequences(self) -> int:
        """How many choices the answer has."""
        return self.n * len(self.prompts)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(map(len, self.prompts))


def read_chat(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Asked:
    """A request to /v1/chat/completions.

    Raises:
        Refused: with vLLM's status and body.
    """
    fields = read_fields(read_object(body, headers.get("content-type")), CHAT, "messages")
    check_stream_options(fields)
    return _chat(fields, fields, headers, settings)


def read_responses(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Asked:
    """A request to /v1/responses.

    Raises:
        Refused: with vLLM's status and body.
    """
    fields = read_fields(read_object(body, headers.get("content-type")), RESPONSES, "input")
    given = fields["input"]
    messages: list[object] = given if isinstance(given, list) else [{"role": "user", "content": given}]
    tools = [tool for tool in fields.get("tools") or () if isinstance(tool, dict) and tool.get("type") == "function"]
    choice = fields.get("tool_choice")
    asked = {
        "messages": [{"role": "system", "content": fields.get("instructions")}, *messages],
        "max_tokens": fields.get("max_output_tokens"),
        "tools": [{"function": tool} for tool in tools],
        "tool_choice": {"function": choice} if isinstance(choice, dict) else choice,
        "reasoning_effort": (fields.get("reasoning") or {}).get("effort"),
    }
    return _chat({**fields, **asked}, fields, headers, settings)


def read_messages(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Asked:
    """A request to /v1/messages.

    Raises:
        Refused: with vLLM's status and body.
    """
    return _messages(body, headers, settings, "max_tokens")


def read_count(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Asked:
    """A request to /v1/messages/count_tokens.

    Raises:
        Refused: with vLLM's status and body.
    """
    return _messages(body, headers, settings, "messages")


def _messages(body: bytes, headers: Mapping[str, str], settings: SimSettings, required: str) -> Asked:
    fields = read_fields(read_object(body, headers.get("content-type")), MESSAGES, required)
    choice = fields.get("tool_choice") or {"type": "auto"}
    named = {"function": {"name": choice.get("name")}}
    tools = [tool for tool in fields.get("tools") or () if isinstance(tool, dict)]
    asked = {
        "messages": [{"role": "system", "content": fields.get("system")}, *(fields.get("messages") or ())],
        "stop": fields.get("stop_sequences"),
        "tools": [{"function": {"name": tool.get("name"), "parameters": tool.get("input_schema")}} for tool in tools],
        "tool_choice": {"any": "required", "none": "none", "tool": named}.get(str(choice.get("type")), "auto"),
        "reasoning_effort": "medium" if (fields.get("thinking") or {}).get("type") == "enabled" else None,
    }
    return _chat({**fields, **asked}, fields, headers, settings)


def _chat(fields: dict[str, Any], sent: Mapping[str, Any], headers: Mapping[str, str], settings: SimSettings) -> Asked:
    """A chat in the words of chat completions; `sent` is the body as it came."""
    choice, tools = read_tools(fields)
    if fields.get("top_logprobs") and not fields.get("logprobs"):
        raise bad_request("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
    check_model(fields, settings)
    if not fields["messages"]:
        raise bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    prompt = _TEMPLATE + tuple(i for message in fields["messages"] for i in (1, *encode(text_of(message)), 2))
    limit = fields.get("max_completion_tokens")
    effort = fields.get("reasoning_effort")
    wants = effort is not None or fields.get("include_reasoning") is True
    return _asked(
        fields,
        settings,
        headers,
        chat=True,
        prompts=(prompt,),
        limit=fields.get("max_tokens") if limit is None else limit,
        logprobs=(fields.get("top_logprobs") or 0) if fields.get("logprobs") else None,
        choice=choice,
        tools=tools,
        reasoning=_EFFORTS.get(effort or "medium", 24) if wants else None,
        show_reasoning=fields.get("include_reasoning") is not False,
        sent=sent,
    )


def read_completions(body: bytes, headers: Mapping[str, str], settings: SimSettings) -> Asked:
    """A request to /v1/completions.

    Raises:
        Refused: with vLLM's status and body.
    """
    fields = read_fields(read_object(body, headers.get("content-type")), COMPLETIONS, "prompt")
    check_stream_options(fields)
    check_model(fields, settings)
    if fields.get("suffix") is not None:
        raise bad_request("suffix is only supported for models with FIM completion rendering", "suffix", bare=True)
    prompts = read_prompts(fields["prompt"])
    limit = fields.get("max_tokens")
    return _asked(
        fields,
        settings,
        headers,
        chat=False,
        prompts=prompts,
        limit=16 if limit is None else limit,
        logprobs=fields.get("logprobs"),
        choice=None,
        tools=(),
        reasoning=None,
        show_reasoning=True,
        sent=fields,
    )


def _asked(  # one place where everything that both endpoints share is checked, in vLLM's order
    fields: dict[str, Any],
    settings: SimSettings,
    headers: Mapping[str, str],
    *,
    chat: bool,
    prompts: tuple[tuple[int, ...], ...],
    limit: int | None,
    logprobs: int | None,
    choice: str | None,
    tools: Tools,
    reasoning: int | None,
    show_reasoning: bool,
    sent: Mapping[str, Any],
) -> Asked:
    echo = not chat and bool(fields.get("echo"))
    longest = max(map(len, prompts))
    check_length(longest, limit, settings.max_model_len, least=0 if echo else 1)
    check_sampling(fields, logprobs)
    options = fields.get("stream_options") or {}
    return Asked(
        chat=chat,
        model=fields.get("model") or settings.model,
        stream=bool(fields.get("stream")),
        n=or_default(fields.get("n"), 1),
        prompts=prompts,
        echo=tuple("".join(decode(i) or "" for i in prompt) for prompt in prompts) if echo else None,
        limit=limit,
        room=settings.max_model_len - longest,
        stops=read_stops(fields.get("stop")),
        include_stop=bool(fields.get("include_stop_str_in_output")),
        stop_ids=frozenset(i for i in fields.get("stop_token_ids") or () if isinstance(i, int)),
        logprobs=logprobs,
        return_token_ids=bool(fields.get("return_token_ids")),
        tokens_as_ids=bool(fields.get("return_tokens_as_token_ids")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        interval=max(fields.get("stream_interval") or 1, settings.stream_interval),
        choice=choice,
        tools=tools,
        reasoning=reasoning,
        show_reasoning=show_reasoning,
        priority=fields.get("priority") or 0,
        request_id=headers.get("x-request-id") or fields.get("request_id"),
        fields=sent,
    )
