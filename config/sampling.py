"""Settings of how tokens are drawn, for requests that do not say it."""

from pydantic import Field

from config.section import Section

INT64 = 2**63


class SamplingSettings(Section):
    """Fields that requests of a lane get which do not have them; the bounds are those of vLLM 0.32."""

    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Temperature of requests that have none. None: the engine's."
    )
    top_p: float | None = Field(default=None, gt=0, le=1, description="top_p of requests that have none, likewise.")
    top_k: int | None = Field(
        default=None,
        ge=-1,
        le=INT64 - 1,
        description="top_k of requests that have none, likewise. 0 and -1: all tokens.",
    )
    min_p: float | None = Field(default=None, ge=0, le=1, description="min_p of requests that have none, likewise.")
    presence_penalty: float | None = Field(
        default=None, ge=-2, le=2, description="presence_penalty of requests that have none, likewise."
    )
    frequency_penalty: float | None = Field(
        default=None, ge=-2, le=2, description="frequency_penalty of requests that have none, likewise."
    )
    repetition_penalty: float | None = Field(
        default=None, gt=0, le=2, description="repetition_penalty of requests that have none, likewise."
    )
    seed: int | None = Field(
        default=None, ge=-INT64, le=INT64 - 1, description="seed of requests that have none, likewise."
    )

    def given(self) -> dict[str, float]:
        """Those that are set."""
        return self.model_dump(exclude_none=True)
