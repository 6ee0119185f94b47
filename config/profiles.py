"""Engine profiles: how to launch vLLM for a purpose, typed, with a reason and a source for each flag.

A profile is a file `config/profiles/NAME.toml`. It may be `based_on` one other profile; then it has that one's flags
and environment too, and what it names itself replaces what it got.
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints, ValidationError

from config.lanes import LANE_NAME, BufferSettings
from config.sampling import SamplingSettings
from config.section import Section

FOLDER = Path(__file__).with_name("profiles")

FlagName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
Value = StrictBool | StrictInt | StrictFloat | StrictStr | dict[str, Any]


class ProfileError(Exception):
    """A profile does not exist or is not valid; the message names the file and every mistake."""


class Advice(Section):
    """One value and why it is that one."""

    value: Value = Field(description="True: --flag. False: --no-flag. A table: JSON. Else the value as text.")
    reason: str = Field(min_length=10, description="What the value does for the purpose, and what it costs.")
    source: str = Field(min_length=5, description="Where the advice comes from; says so where nothing was measured.")
    versions: tuple[Version, ...] = Field(
        default=("0.32.0",), min_length=1, description="Versions of vLLM whose parser accepted it."
    )

    def text(self) -> str:
        """The value as vLLM's command line takes it."""
        return json.dumps(self.value) if isinstance(self.value, dict) else str(self.value)


class LaneDefaults(Section):
    """What the gateway's lane in front of such an engine is set to."""

    name: str = Field(pattern=LANE_NAME, description="The lane the profile is meant for.")
    slots: int = Field(ge=1, description="Requests at once: the engine's max-num-seqs, so that it never queues.")
    queue: int = Field(ge=0, description="Requests that may wait in the gateway.")
    patience_s: float = Field(gt=0, description="Seconds a request waits for a slot.")
    buffer: BufferSettings = Field(default=BufferSettings(), description="The token buffer.")
    defaults: SamplingSettings = Field(
        default=SamplingSettings(), description="Fields that requests get which do not have them."
    )


class Profile(Section):
    """A way to launch vLLM."""

    name: str = Field(description="The file's name without its ending.")
    purpose: str = Field(min_length=20, description="What it is for.")
    cost: str = Field(min_length=20, description="What it gives up.")
    hardware: Literal["gpu", "cpu"] = Field(default="gpu", description="What it runs on.")
    model: str = Field(min_length=1, description="The model it was written for.")
    based_on: str | None = Field(default=None, description="The profile whose flags it has too.")
    lane: LaneDefaults = Field(description="The gateway's side.")
    environment: dict[str, Advice] = Field(default={}, description="Environment variables.")
    flags: dict[FlagName, Advice] = Field(default={}, description="Flags of `vllm serve`, without the dashes.")

    def arguments(self, changes: Mapping[str, str] | None = None) -> list[str]:
        """The flags as a command line, one string each.

        Args:
            changes: flag -> value that replaces or follows the profile's own.
        """
        rest = dict(changes or {})
        words: list[str] = []
        for name, flag in self.flags.items():
            if name in rest:
                words += [f"--{name}", rest.pop(name)]
            elif isinstance(flag.value, bool):
                words.append(f"--{name}" if flag.value else f"--no-{name}")
            else:
                words += [f"--{name}", flag.text()]
        return words + [word for name, value in rest.items() for word in (f"--{name}", value)]

    def variables(self) -> dict[str, str]:
        """The environment variables as they are set."""
        return {name: advice.text() for name, advice in self.environment.items()}


def names(folder: Path = FOLDER) -> list[str]:
    """Every profile there is, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, folder: Path = FOLDER) -> Profile:
    """The profile of that name, with what it is based on.

    Raises:
        ProfileError: there is no such profile, or it or its base is not valid.
    """
    tree = _read(name, folder)
    if (base := tree.get("based_on")) is not None:
        tree = _merged(_read(str(base), folder), tree)
    try:
        profile = Profile.model_validate(tree | {"name": name})
    except ValidationError as error:
        raise ProfileError("\n".join(f"{folder / name}.toml: {line}" for line in _mistakes(error))) from None
    return profile


def _read(name: str, folder: Path) -> dict[str, Any]:
    if name not in (known := names(folder)):
        raise ProfileError(f"there is no profile {name}; there are {', '.join(known)}")
    path = folder / f"{name}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: {error}") from None


def _merged(base: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """`tree` with the flags and the environment of `base` before its own; everything else is `tree`'s alone."""
    if "based_on" in base:
        raise ProfileError(f"{tree['based_on']} is based on {base['based_on']}: a base stands alone")
    merged = dict(tree)
    for table in ("environment", "flags"):
        merged[table] = base.get(table, {}) | tree.get(table, {})
    return merged


def _mistakes(error: ValidationError) -> list[str]:
    items = error.errors(include_url=False, include_input=False)
    return [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in items]
