"""The endpoints that lead to an engine, in one table: what is particular about each. Everything else is the same path.

This is the allow-list: what is not here, or a route of its own in the service, is a 404 and reaches no engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.wire.shapes import ANTHROPIC, OPENAI, Shape


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint.

    Attributes:
        path: at the gateway and at the engine.
        summary: one line for people.
        fields: what a body must have besides the model; the engine is the one to insist.
        dialect: of its streams, a name in `gateway.buffer.endings.DIALECTS`; None: it is never streamed.
        merges: neighbouring pieces of text may be merged; else every event is relayed as it is.
        shape: in which its errors leave.
        keeps: the engine that answers may keep the answer, to be asked for by its id later.
        tiers: service tiers of the endpoint's own API that say nothing about a lane; they go on to the engine.
        states_tier: the answer has `service_tier` at its top where the request had.
        sampling: fields that a lane may have defaults for.
        prioritized: vLLM's own field `priority` exists.
        method: of the request to the engine.
    """

    path: str
    summary: str
    fields: tuple[str, ...] = ()
    dialect: str | None = None
    merges: bool = False
    shape: Shape = OPENAI
    keeps: bool = False
    tiers: frozenset[str] = frozenset()
    states_tier: bool = False
    sampling: frozenset[str] = frozenset()
    prioritized: bool = False
    method: str = "POST"


RETRIEVE = Endpoint(
    "/v1/responses/{response_id}", "The events of a stored response.", dialect="responses", method="GET"
)
"""A stored response as a stream; whole ones are asked for without a slot, see `gateway.stored`."""

_RERANK = "Documents in the order of their relevance to a query."
_SCORE = "How alike two texts are, or how well one answers the other."
_SAMPLING_OF_MESSAGES = frozenset({"temperature", "top_p", "top_k"})
SAMPLING = _SAMPLING_OF_MESSAGES | {
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
}
"""Fields that say how tokens are drawn, as vLLM 0.32 has them in chats, completions and responses."""

_ANTHROPICS_TIERS = frozenset({"auto", "standard_only"})

ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {
        endpoint.path: endpoint
        for endpoint in (
            Endpoint(
                "/v1/chat/completions",
                "A chat answer.",
                ("messages",),
                dialect="openai",
                merges=True,
                states_tier=True,
                sampling=SAMPLING,
                prioritized=True,
            ),
            Endpoint(
                "/v1/completions",
                "A completion of a prompt.",
                ("prompt",),
                dialect="openai",
                merges=True,
                states_tier=True,
                sampling=SAMPLING,
                prioritized=True,
            ),
            Endpoint(
                "/v1/responses",
                "A response.",
                ("input",),
                dialect="responses",
                keeps=True,
                states_tier=True,
                sampling=SAMPLING,
                prioritized=True,
            ),
            Endpoint(
                "/v1/messages",
                "A message, as Anthropic's API has it.",
                ("messages", "max_tokens"),
                dialect="messages",
                shape=ANTHROPIC,
                tiers=_ANTHROPICS_TIERS,
                sampling=_SAMPLING_OF_MESSAGES,
            ),
            Endpoint(
                "/v1/messages/count_tokens",
                "The tokens of a message that is not sent.",
                ("messages",),
                shape=ANTHROPIC,
                tiers=_ANTHROPICS_TIERS,
            ),
            Endpoint("/v1/embeddings", "Texts as vectors.", ("input",)),
            Endpoint("/rerank", _RERANK, ("query", "documents")),
            Endpoint("/v1/rerank", _RERANK, ("query", "documents")),
            Endpoint("/v2/rerank", _RERANK, ("query", "documents")),
            Endpoint("/score", _SCORE),
            Endpoint("/v1/score", _SCORE),
            Endpoint("/tokenize", "The tokens of a text or a chat."),
            Endpoint("/detokenize", "The text of tokens.", ("tokens",)),
        )
    }
)
"""By path: everything that is posted on to an engine."""


def shape_of(path: str) -> Shape:
    """The shape of errors at a path, whether or not anything is there."""
    return ANTHROPIC if path == "/v1/messages" or path.startswith("/v1/messages/") else OPENAI
