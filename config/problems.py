"""What is wrong with a configuration, in one line each, without a value that may be a secret."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence

from pydantic import BaseModel, ValidationError

from config.settings import BUILT_IN_LANES, PREFIX, EngineSettings, LaneSettings, Settings


class ConfigError(Exception):
    """The configuration cannot be used.

    Args:
        problems: every problem that was found, each a line that names the source and the setting.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def known_paths() -> list[str]:
    """Every setting as a dotted path, for the built-in lanes."""
    return list(_paths(Settings, ""))


def suggestion(name: str) -> str:
    """The setting that a wrong path or variable is likely meant to be, written as the wrong one is; or nothing.

    Dots, one underscore and two are the same here: TOKENLANE_SERVER_PORT is a common slip for TOKENLANE_SERVER__PORT.
    """
    variable = name.upper().startswith(PREFIX)
    wrong = name[len(PREFIX) :].lower() if variable else name
    known = {_flat(path): path for path in known_paths()}
    path = known.get(_closest(_flat(wrong), known), "")
    return _meant(PREFIX + path.replace(".", "__").upper() if variable and path else path)


def _flat(path: str) -> str:
    return path.replace("__", "_").replace(".", "_")


def _closest(wrong: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.75)), "")


def _meant(name: str) -> str:
    return f"; did you mean {name}?" if name else ""


def validation_problems(error: ValidationError, origin: Callable[[tuple[str, ...]], str | None]) -> list[str]:
    """The lines for pydantic's errors; `origin` tells where the value at a path came from, where anything gave it."""
    problems: list[str] = []
    for item in error.errors(include_input=False, include_url=False):
        path = tuple(str(part) for part in item["loc"] if part != "[key]")
        place = [word for word in (origin(path), ".".join(path)) if word]
        message = _message(item["type"], item["msg"], path)
        problems += [": ".join([*place, line]) for line in message.splitlines()]
    return problems


def _message(kind: str, message: str, path: tuple[str, ...]) -> str:
    if kind == "extra_forbidden":
        engine_key = len(path) > 1 and path[-2].isdigit()
        meant = _meant(_closest(path[-1], EngineSettings.model_fields)) if engine_key else suggestion(".".join(path))
        return f"is not a setting{meant}"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return "must be a table"
    if kind == "missing":
        return "is missing"
    message = message.removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return message.replace("should be", "must be", 1).replace("should", "must", 1)


def _paths(model: type[BaseModel], above: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = above + name
        if name == "lanes":
            for lane in BUILT_IN_LANES:
                yield from _paths(LaneSettings, f"{path}.{lane}.")
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _paths(field.annotation, path + ".")
        else:
            yield path
