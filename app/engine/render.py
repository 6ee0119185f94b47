"""A profile as something to start: pure."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from config.profiles import Profile


@dataclass(frozen=True, slots=True)
class Launch:
    """A profile and what is different this time.

    Args:
        profile: the profile.
        model: name or folder; None: the profile's.
        cards: the tensor-parallel size; None: the profile's.
        extra: words that follow the profile's own.
    """

    profile: Profile
    model: str | None = None
    cards: int | None = None
    extra: list[str] = field(default_factory=list)

    def words(self) -> list[str]:
        """The words after `vllm serve`."""
        model = self.model or self.profile.model
        changes = {"tensor-parallel-size": str(self.cards)} if self.cards is not None else {}
        named = [] if "--served-model-name" in self.extra else ["--served-model-name", served_name(model)]
        return [model, *named, *self.profile.arguments(changes), *self.extra]


def served_name(model: str) -> str:
    """What clients call the model: the last part of its name or path."""
    return model.rstrip("/").rpartition("/")[2]


def command(launch: Launch) -> str:
    """A command for a shell, an option a line."""
    lines: list[str] = ["vllm serve " + shlex.quote(launch.words()[0])]
    for word in launch.words()[1:]:
        if word.startswith("-"):
            lines.append(shlex.quote(word))
        else:
            lines[-1] += " " + shlex.quote(word)
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in launch.profile.variables().items())
    return variables + " \\\n  ".join(lines) + "\n"


def env(launch: Launch) -> str:
    """Variables for a shell or an EnvironmentFile: `vllm serve "$VLLM_MODEL" $VLLM_ARGS` through `eval` or `xargs`."""
    words = launch.words()
    values = launch.profile.variables() | {"VLLM_MODEL": words[0], "VLLM_ARGS": shlex.join(words[1:])}
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()) + _beside(launch)


def compose(launch: Launch) -> str:
    """A service for a compose file; JSON strings are YAML strings."""
    words = [*launch.words(), "--host", "0.0.0.0", "--port", "8000"]  # noqa: S104 - inside a container
    lines = [f"  vllm-{launch.profile.name}:", '    entrypoint: ["vllm", "serve"]']
    if variables := launch.profile.variables():
        lines += ["    environment:", *(f"      {name}: {_yaml(value)}" for name, value in variables.items())]
    lines += ["    command:", *(f"      - {_yaml(word)}" for word in words)]
    return "services:\n" + "\n".join(lines) + "\n" + _beside(launch)


def _beside(launch: Launch) -> str:
    """A comment: what the gateway is told beside, if there is anything."""
    lane = launch.profile.lane
    if not (given := lane.defaults.given()):
        return ""
    variable = f"TOKENLANE_LANES__{lane.name.upper()}__DEFAULTS={shlex.quote(json.dumps(given))}"
    return f"# The same defaults for requests in the gateway, whichever engine answers: {variable}\n"


def gateway(launch: Launch) -> str:
    """The lane in front of it, for config/gateway.toml."""
    lane = launch.profile.lane
    lines = [
        f"[lanes.{lane.name}]",
        'engines = ["http://127.0.0.1:8000"]',
        f"pool_size = {lane.slots}",
        f"queue = {lane.queue}",
        f"patience_s = {lane.patience_s:g}",
        f"buffer = {{ tokens = {lane.buffer.tokens}, delay_ms = {lane.buffer.delay_ms:g} }}",
    ]
    if lane.defaults.given():
        given = ", ".join(f"{name} = {json.dumps(value)}" for name, value in lane.defaults.given().items())
        lines.append(f"defaults = {{ {given} }}")
    if launch.profile.flags.get("scheduling-policy"):  # one engine for both lanes
        lines = ['topology = "single"', "", *lines, "priority = 0", "", "[lanes.batch]", "priority = 1"]
    return "\n".join(lines) + "\n"


def _yaml(text: str) -> str:
    return json.dumps(text.replace("$", "$$"))


FORMATS: dict[str, Callable[[Launch], str]] = {"command": command, "env": env, "compose": compose, "gateway": gateway}
"""The registry: a new format is a function and an entry here."""
