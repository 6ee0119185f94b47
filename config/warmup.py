"""Settings of the warm-up of engines."""

from typing import Annotated, Literal

from pydantic import Field

from config.section import Section

Length = Annotated[int, Field(ge=1, le=1_048_576)]


class WarmUpSettings(Section):
    """What an engine has to do before it gets traffic: bursts, until first tokens come as quickly as they will."""

    mode: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: an engine gets traffic once it is warm, as simulated ones are. off: once it generates.",
    )
    concurrency: int = Field(
        default=256,
        ge=1,
        le=65536,
        description="Requests of the largest burst at most; else as many as the engine's lanes send it at once.",
    )
    prompt_tokens: tuple[Length, ...] = Field(
        default=(16, 512), max_length=16, description="Lengths of the prompts, in tokens."
    )
    longest_prompt: int = Field(
        default=8192,
        ge=0,
        le=1_048_576,
        description="One more length: as many tokens as the engine takes, but not above this. 0: no such prompts.",
    )
    max_s: float = Field(
        default=300,
        gt=0,
        le=86400,
        description="Seconds after which an engine gets traffic though it is not steady yet.",
    )
