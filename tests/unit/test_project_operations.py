"""docs/operations.md names every setting, metric and error as they are."""

import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.metrics import Metrics
from config.lanes import EngineSettings, LaneSettings
from config.settings import Settings
from gateway.errors import EngineError, GatewayError, Refused
from gateway.telemetry import FlushReason, LineOutcome, Outcome

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text()
METRICS = re.findall(r"^# HELP (\w+) (.+)\n# TYPE \w+ (\w+)$", Metrics(list).text().decode(), re.MULTILINE)
OWN = [
    (name, text, kind)
    for name, text, kind in METRICS
    if name.startswith("tokenlane_") and not name.endswith("_created")
]
PREFIXES: dict[str, tuple[str, type[BaseModel]]] = {
    "lanes": ("lanes.LANE", LaneSettings),
    "engines": ("lanes.LANE.engines[]", EngineSettings),
}


def rows(model: type[BaseModel] = Settings, path: str = "") -> Iterator[str]:
    """A row of the table for each setting."""
    for name, field in model.model_fields.items():
        where = f"{path}{name}"
        if name in PREFIXES:
            inner, listed = PREFIXES[name]
            yield from rows(listed, f"{inner}.")
        elif (below := _section(field)) is not None:
            yield from rows(below, f"{where}.")
        else:
            yield f"| `{where}` | {_default(field)} | {field.description} |"


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return (
        kind
        if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, BaseModel)
        else None
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.default
    if value is None:
        return "not set"
    assert not isinstance(value, SecretStr), get_args(field.annotation)
    if isinstance(value, Path):
        value = str(value)
    return f"`{json.dumps(value)}`"


@pytest.mark.parametrize("row", list(rows()))
def test_every_setting_is_in_the_table_as_it_is(row: str) -> None:
    assert f"\n{row}\n" in TEXT


def test_the_table_has_no_setting_that_there_is_not() -> None:
    table = TEXT.partition("## Settings")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `[^\n]+$", table, re.MULTILINE) == list(rows())


@pytest.mark.parametrize(("name", "text", "kind"), OWN)
def test_every_metric_is_in_the_table_as_it_is(name: str, text: str, kind: str) -> None:
    assert re.search(rf"^\| `{name}` \| {kind} \| [^|]*\| {re.escape(text)} \|$", TEXT, re.MULTILINE)


def test_no_metric_is_named_that_there_is_not() -> None:
    there = {name for name, _, _ in METRICS}
    named = set(re.findall(r"\b(tokenlane_\w+)\b", TEXT))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} <= there


@pytest.mark.parametrize("word", [*Outcome, *FlushReason, *LineOutcome])
def test_the_values_of_labels_are_explained(word: str) -> None:
    assert f"`{word}`" in TEXT


def _leaves(kind: type[GatewayError]) -> Iterator[type[GatewayError]]:
    below = kind.__subclasses__()
    for each in below:
        yield from _leaves(each)
    if not below:
        yield kind


@pytest.mark.parametrize("error", [*_leaves(Refused), *_leaves(EngineError)])
def test_the_runbook_knows_every_error_that_an_operator_can_meet(error: type[GatewayError]) -> None:
    assert f"`{error.__name__}`" in TEXT
