"""The sources of the settings, and where each value came from.

Later in this list is stronger:

    default            the tree's own
    file               TOML; config/gateway.toml if it is there, or the one that was named
    .env               TOKENLANE_* lines of .env
    environment        TOKENLANE_* variables; TOKENLANE_LANES__BATCH__QUEUE is lanes.batch.queue
    command line       path=value

Tables are merged key by key, everything else is replaced whole. An empty variable counts as not set: Compose passes on
unset variables as empty ones. This module is the only reader of the environment.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from config.problems import ConfigError, suggestion, validation_problems
from config.settings import PREFIX, Settings

DEFAULT_FILE = Path("config/gateway.toml")
DEFAULT_ENV_FILE = Path(".env")
DEFAULT_ORIGIN = "default"
COMMAND_LINE = "command line"

SERVICE_LINK_NAME = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_.+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
SERVICE_LINK_VALUE = re.compile(r"^(tcp|udp|sctp)://")

SettingPath = tuple[str, ...]
"""A place in the tree: its keys from the root."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one origin, nested as the tree is."""

    origin: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The tree, and the origin of each path that a source has set."""

    settings: Settings
    origins: Mapping[SettingPath, str]

    def origin(self, path: SettingPath) -> str:
        """Where the value at a path came from: its own origin, or the one of the table that it was given in."""
        return origin_of(path, self.origins) or DEFAULT_ORIGIN


def load(
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    env_file: Path | None = DEFAULT_ENV_FILE,
    file: Path | None = None,
) -> Loaded:
    """Reads the sources and builds the tree.

    Args:
        overrides: dotted paths and their values as text, from the command line.
        environ: the environment; None reads that of the process.
        env_file: where TOKENLANE_* lines may be; it need not exist.
        file: the TOML file, which must exist; None takes `config/gateway.toml` if it is there.

    Raises:
        ConfigError: a source cannot be read, or what they say together is not a valid tree. It lists every problem.
    """
    problems: list[str] = []
    layers = [
        *_file_layers(file, problems),
        *_variable_layers(_env_file_values(env_file, problems), ".env", problems),
        *_variable_layers(os.environ if environ is None else environ, "environment", problems),
        *_override_layers(overrides or {}, problems),
    ]
    values, origins = merged(layers)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        problems += validation_problems(error, lambda path: origin_of(path, origins))
        raise ConfigError(problems) from None
    if problems:
        raise ConfigError(problems)
    return Loaded(settings, origins)


def merged(layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[SettingPath, str]]:
    """All layers as one tree of values, the last one strongest, and the origin of every value in it."""
    values: dict[str, Any] = {}
    origins: dict[SettingPath, str] = {}
    for layer in layers:
        _merge(values, layer.values)
        origins |= dict.fromkeys(_leaves(layer.values), layer.origin)
    return values, origins


def origin_of(path: SettingPath, origins: Mapping[SettingPath, str]) -> str | None:
    """Who gave the value at a path, the list it is in, or else something below it. None: nobody, it is a default."""
    for end in range(len(path), 0, -1):
        if (origin := origins.get(path[:end])) is not None:
            return origin
    return next((origin for known, origin in origins.items() if path and known[: len(path)] == path), None)


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            below = into.setdefault(key, {})
            if isinstance(below, dict):  # else the tree will say that it must be a table
                _merge(below, value)
        else:
            into[key] = value


def _leaves(values: Mapping[str, Any], above: SettingPath = ()) -> Iterator[SettingPath]:
    for key, value in values.items():
        path = (*above, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path


def _file_layers(file: Path | None, problems: list[str]) -> Iterator[Layer]:
    path = file or DEFAULT_FILE
    try:
        yield Layer(str(path), tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        if file is not None:
            problems.append(f"{path}: there is no such file")
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{path}: is not valid TOML: {error}")


def _env_file_values(path: Path | None, problems: list[str]) -> dict[str, str]:
    if path is None or not path.is_file():
        return {}
    try:
        found = dotenv_values(path)
    except (OSError, UnicodeDecodeError):
        problems.append(f"{path}: cannot be read")
        return {}
    return {name: value for name, value in found.items() if value}


def _variable_layers(variables: Mapping[str, str], kind: str, problems: list[str]) -> Iterator[Layer]:
    """One layer a variable, a variable for a whole table before those for its parts."""
    for name in sorted(variables, key=str.upper):
        value = variables[name]
        if name.upper().startswith(PREFIX) and value and not is_service_link(name, value):
            try:
                yield Layer(f"{kind} {name}", decoded(name, value))
            except ValueError as error:
                problems.append(f"{kind} {name}: {error}")


def _override_layers(overrides: Mapping[str, str], problems: list[str]) -> Iterator[Layer]:
    for path, value in overrides.items():
        try:
            yield Layer(COMMAND_LINE, decoded(path, value))
        except ValueError as error:
            problems.append(f"{COMMAND_LINE}: {path}: {error}")


def is_service_link(name: str, value: str) -> bool:
    """Whether a variable is one that Kubernetes or Docker adds for a service which happens to be named tokenlane."""
    link = SERVICE_LINK_NAME.search(name) or (name.endswith("_PORT") and SERVICE_LINK_VALUE.match(value))
    return bool(link)


def decoded(name: str, value: str) -> dict[str, Any]:
    """A variable, or a dotted path, and its text as nested values.

    pydantic-settings finds the place and reads JSON where the place is a table.

    Raises:
        ValueError: nothing has this name, or JSON is needed and this is none.
    """
    variable = name if name.upper().startswith(PREFIX) else PREFIX + name.replace(".", "__")
    source = EnvSettingsSource(Settings)
    source.env_vars = {variable.lower(): value}
    try:
        values = source()
    except SettingsError:
        raise ValueError("must be JSON") from None
    if not values:
        raise ValueError(f"is not a setting{suggestion(name)}")
    return values
