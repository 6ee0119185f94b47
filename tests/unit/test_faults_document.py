"""`docs/faults.md` and the tests name each other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/faults.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", TEXT)
CASES = 71


def named_in(path: Path) -> Iterator[str]:
    """The tests of a file, those of its classes too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_every_test_that_the_document_names_is_there() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in NAMED
        if not (ROOT / file).is_file() or name.rpartition("::")[2] not in set(named_in(ROOT / file))
    ]
    assert len(NAMED) > 100
    assert not missing


def test_every_test_of_a_fault_is_named_in_the_document() -> None:
    matrix = TEXT.partition("## Cases")[0]
    left_out = [
        name
        for path in sorted((ROOT / "tests/faults").glob("test_*.py"))
        for name in named_in(path)
        if f"`tests/faults/{path.name}::{name}`" not in matrix
    ]
    assert not left_out


def test_every_case_has_its_row_with_a_test_or_a_reason() -> None:
    rows = dict(re.findall(r"^\| H(\d+) \| [^|]+ \| ([^|]+) \|$", TEXT, flags=re.MULTILINE))
    assert [int(number) for number in rows] == list(range(1, CASES + 1))
    assert not [number for number, cell in rows.items() if not cell.strip()]


def test_no_case_is_cited_that_there_is_not() -> None:
    cited = {
        int(number)
        for path in (ROOT / "tests").rglob("test_*.py")
        for line in re.findall(r"[Cc]ases? ((?:H\d+[ ,()a-z]*)+)", path.read_text())
        for number in re.findall(r"H(\d+)", line)
    }
    assert cited <= set(range(1, CASES + 1))
    assert len(cited) > 60
