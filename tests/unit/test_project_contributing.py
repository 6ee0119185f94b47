"""CONTRIBUTING.md: its worked example does what it says, its table names what is there."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway.routing import policies
from tests.contracts import test_routing_policies as contract

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
TEST, POLICY, LINE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
MODULE = "gateway.routing.policies.most_room"
FILE = "gateway/routing/policies/most_room.py"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example's module, in the place that the text names."""
    module = ModuleType(MODULE)
    exec(compile(POLICY, FILE, "exec"), module.__dict__)  # noqa: S102 - it is our own text
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def functions(names: dict[str, Any]) -> list[str]:
    return [name for name in names if name.startswith("test_")]


def test_the_examples_test_passes_with_the_examples_policy(module: ModuleType) -> None:
    names: dict[str, Any] = {"__name__": module.__name__ + "_test"}
    exec(compile(TEST, "example", "exec"), names)  # noqa: S102 - it is our own text
    assert len(functions(names)) == 2
    for name in functions(names):
        names[name]()


def test_the_examples_line_fits_into_the_registry(module: ModuleType) -> None:
    entry = eval("{" + LINE + "}", dict(vars(module)))  # noqa: S307 - it is our own text
    assert entry == {"most_room": module.MostRoom}
    assert entry.keys().isdisjoint(policies.POLICIES)


@pytest.mark.parametrize("name", functions(vars(contract)))
def test_the_examples_policy_keeps_the_contract(module: ModuleType, name: str) -> None:
    getattr(contract, name)(module.MostRoom)


@pytest.mark.parametrize(("code", "file"), [(POLICY, FILE), (TEST, "tests/unit/test_routing_most_room.py")])
def test_the_examples_code_is_clean(code: str, file: str) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "--stdin-filename", file, "-"],
            cwd=ROOT, input=code, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_folders_and_registries_of_the_table_exist() -> None:
    rows = re.findall(r"^\| an? [^|]+\| `([\w/]+)/` \| its `__init__.py`, `(\w+)` \|$", TEXT, re.MULTILINE)
    assert len(rows) == 6
    for folder, registry in rows:
        assert getattr(importlib.import_module(folder.replace("/", ".")), registry)


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target
