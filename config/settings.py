"""The settings tree: every knob once, typed, with its unit and bounds.

`Settings(...)` takes values and reads nothing; `config.load.load` reads the sources. The tree is frozen, refuses keys
that it does not know, and holds only combinations that can work: the rules are in `config/rules.py`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from config import rules
from config.access import KeySettings, TracingSettings
from config.batch import BatchSettings
from config.lanes import LANE_NAME, BufferSettings, EngineSettings, LaneSettings
from config.service import (
    EmbeddedSettings,
    HealthSettings,
    LimitSettings,
    ServerSettings,
    SingleSettings,
    TimeoutSettings,
)
from config.warmup import WarmUpSettings

__all__ = [
    "BUILT_IN_LANES",
    "BatchSettings",
    "BufferSettings",
    "EmbeddedSettings",
    "EngineSettings",
    "HealthSettings",
    "KeySettings",
    "LaneSettings",
    "LimitSettings",
    "ServerSettings",
    "Settings",
    "SingleSettings",
    "TimeoutSettings",
    "TracingSettings",
    "WarmUpSettings",
]

BUILT_IN_LANES: dict[str, dict[str, Any]] = {"lowlatency": {}, "batch": {"patience_s": 600}}
"""Lanes that are always there, with defaults of their own; a configuration changes them and adds others."""

PREFIX = "TOKENLANE_"
"""Of every variable; TOKENLANE_LANES__BATCH__QUEUE is lanes.batch.queue."""

LaneName = Annotated[str, StringConstraints(pattern=LANE_NAME, max_length=32)]


class Settings(BaseSettings):
    """The whole tree.

    Raises:
        pydantic.ValidationError: a key is unknown, a value is out of its bounds or a rule is broken.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    topology: Literal["split", "single"] = Field(
        default="split", description="split: each lane has its own engines. single: all lanes share the default lane's."
    )
    default_lane: LaneName = Field(default="lowlatency", description="Lane of a request that asks for none.")
    batch_lane: LaneName = Field(default="batch", description="Lane of batch jobs and of the service tier flex.")
    lanes: dict[LaneName, LaneSettings] = Field(default={}, description="The lanes by name.")
    single: SingleSettings = Field(default=SingleSettings(), description="Applies in topology single alone.")
    server: ServerSettings = Field(default=ServerSettings(), description="The HTTP server.")
    timeouts: TimeoutSettings = Field(default=TimeoutSettings(), description="How long the gateway waits for whom.")
    limits: LimitSettings = Field(
        default=LimitSettings(), description="The largest of everything that is held in memory."
    )
    health: HealthSettings = Field(default=HealthSettings(), description="When an engine is left out of its lane.")
    warmup: WarmUpSettings = Field(default=WarmUpSettings(), description="What an engine does before it gets traffic.")
    batch: BatchSettings = Field(default=BatchSettings(), description="Files and batches.")
    keys: KeySettings = Field(default=KeySettings(), description="Keys of clients, and their limits.")
    tracing: TracingSettings = Field(default=TracingSettings(), description="Traces through OpenTelemetry.")
    sim: EmbeddedSettings = Field(
        default=EmbeddedSettings(), description="Simulated engines for lanes without engines."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Values alone: building the tree reads no file and no environment."""
        return (init_settings,)

    @field_validator("lanes", mode="before")
    @classmethod
    def _built_in_lanes(cls, lanes: Any) -> Any:
        if not isinstance(lanes, dict):
            return lanes
        return BUILT_IN_LANES | {name: _with_defaults(name, lane) for name, lane in lanes.items()}

    @field_validator("lanes", mode="after")
    @classmethod
    def _engines_have_names(cls, lanes: dict[str, LaneSettings]) -> dict[str, LaneSettings]:
        return {name: lane.model_copy(update={"engines": _named(name, lane)}) for name, lane in lanes.items()}

    @model_validator(mode="after")
    def _rules(self) -> "Settings":
        if problems := rules.broken(self):
            raise ValueError("\n".join(problems))
        return self

    @property
    def embedded(self) -> bool:
        """Whether simulated engines answer, since no lane has an engine."""
        return not any(lane.engines for lane in self.lanes.values())

    def engines_of(self, lane: str) -> tuple[EngineSettings, ...]:
        """The engines that answer for a lane; in topology single those of the default lane. Empty when embedded."""
        return self.lanes[self.default_lane if self.topology == "single" else lane].engines

    def connections_of(self, lane: str) -> int:
        """Connections to all engines that answer for a lane. An embedded lane has one engine."""
        owner = self.lanes[self.default_lane if self.topology == "single" else lane]
        sizes = [engine.pool_size or owner.pool_size for engine in owner.engines]
        return sum(sizes) or owner.pool_size

    def slots_of(self, lane: str) -> int:
        """Requests of a lane that run at once, at least one.

        In topology single all lanes together may hold the default lane's slots, and every other lane leaves
        `single.reserve` of the shared connections free.
        """
        if (asked := self.lanes[lane].slots) is not None:
            return asked
        shared = self.topology == "single" and lane != self.default_lane
        return max(1, self.connections_of(lane) - (self.single.reserve if shared else 0))


def _with_defaults(name: str, lane: Any) -> Any:
    """What is written of a lane, with the defaults that a built-in one has of its own."""
    return BUILT_IN_LANES.get(name, {}) | lane if isinstance(lane, dict) else lane


def _named(lane_name: str, lane: LaneSettings) -> tuple[EngineSettings, ...]:
    """The lane's engines, each with a name that is no address."""
    return tuple(
        engine if engine.name else engine.model_copy(update={"name": f"{lane_name}-{place}"})
        for place, engine in enumerate(lane.engines)
    )
