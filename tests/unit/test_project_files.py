"""The files of the repository: what they promise and what they must not hold."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from config.load import load
from config.settings import Settings
from config.show import leaves

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-dev.lock")
EXAMPLE = (ROOT / "config" / "gateway.toml").read_text()
HOSTS = ("pypi" + ".org", "files.pythonhosted" + ".org", "registry.npmjs" + ".org", "proxy.golang" + ".org")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(work|home/\w+|root|Users/\w+)/")


def text_files() -> Iterator[tuple[str, str]]:
    """Every file of the project that git knows or would take, as text."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().splitlines():
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


def locked(name: str) -> dict[str, str]:
    """Package -> version of a lock file."""
    found = re.findall(r"^([a-zA-Z0-9._-]+)==([^\s;\\]+)", (ROOT / name).read_text(), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in found}


def wanted(group: str) -> Iterator[Requirement]:
    """What pyproject.toml asks for: its dependencies and those of a group."""
    yield from map(Requirement, PYPROJECT["project"]["dependencies"])
    for entry in PYPROJECT["dependency-groups"][group]:
        if isinstance(entry, str):
            yield Requirement(entry)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_no_file_names_a_registry_or_a_path_of_a_machine() -> None:
    found = [
        f"{name}: {bad}"
        for name, text in text_files()
        for bad in [*(host for host in HOSTS if host in text), *(m.group() for m in MACHINE_PATH.finditer(text))]
    ]
    assert found == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_hashes_and_no_source(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|^\s*(-i|-f|--(extra-)?index|--find-links|--trusted)", text, re.MULTILINE)
    pins = re.split(r"^(?=[a-zA-Z0-9])", text, flags=re.MULTILINE)[1:]
    assert pins
    assert [pin.split()[0] for pin in pins if "--hash=sha256:" not in pin] == []


@pytest.mark.parametrize(("name", "group"), [("requirements.lock", "build"), ("requirements-dev.lock", "dev")])
def test_a_lock_holds_what_the_project_asks_for(name: str, group: str) -> None:
    versions = locked(name)
    unmet = [
        str(requirement)
        for requirement in wanted(group)
        if not requirement.specifier.contains(versions.get(canonicalize_name(requirement.name), ""), prereleases=True)
    ]
    assert unmet == [], "run `make lock`"


def test_development_runs_the_versions_that_are_served() -> None:
    served, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: development.get(name) for name in served} == served


def test_make_installs_the_uv_that_is_locked() -> None:
    [version] = re.findall(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert locked("requirements-dev.lock")["uv"] == version


def test_every_target_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert sorted(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE)) == sorted(phony.split())


def test_the_example_file_is_valid_and_changes_nothing() -> None:
    loaded = load(environ={}, env_file=None, file=ROOT / "config" / "gateway.toml")
    assert loaded.settings == Settings()
    assert loaded.origins == {}


def test_what_the_example_file_shows_is_the_default(tmp_path: Path) -> None:
    without_engine = re.sub(r"# An engine with more.*?(?=\n\[)", "", EXAMPLE, flags=re.DOTALL)
    shown = re.sub(r"^# (\w+ = [^ ])", r"\1", without_engine, flags=re.MULTILINE)
    file = tmp_path / "shown.toml"
    file.write_text(shown)
    loaded = load(environ={}, env_file=None, file=file)
    assert loaded.settings == Settings()
    assert loaded.origins.keys() >= {("server", "port"), ("lanes", "batch", "buffer", "tokens")}


def test_the_example_file_shows_every_setting() -> None:
    section, shown = "", set()
    for line in EXAMPLE.splitlines():
        if header := re.match(r"\[([\w.]+)\]$", line):
            section = header[1] + "."
        elif key := re.match(r"# (\w+) =", line):
            shown.add(section + key[1])
    assert {".".join(path) for path, _ in leaves(Settings())} - shown == set()


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert all(f"\n   {number}. " in text for number in range(1, 10))
    assert "END OF TERMS AND CONDITIONS" in text
    assert text.rstrip().endswith("limitations under the License.")


def test_each_decision_has_its_number_and_its_parts() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == sorted(set(numbers))
    for number, record in zip(numbers, records, strict=True):
        text = record.read_text()
        assert text.startswith(f"# {number}. ")
        assert [part for part in ("Context", "Decision", "Consequences") if f"\n## {part}\n" not in text] == []
