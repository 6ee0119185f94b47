"""The command line of `tokenlane bench`."""

import json
import re
from pathlib import Path

import pytest

from app.cli import main, parser


def documented() -> list[str]:
    """The command lines that docs/bench.md gives."""
    text = (Path(__file__).parents[2] / "docs" / "bench.md").read_text()
    return re.findall(r"^tokenlane (bench [^#\n]+)", text, re.MULTILINE)


@pytest.mark.parametrize("line", documented())
def test_a_command_line_of_the_documentation_is_understood(line: str) -> None:
    assert callable(parser().parse_args(line.split()).run)


def test_lists_of_loads_are_read() -> None:
    parsed = parser().parse_args(["bench", "run", "http://h", "--concurrency", "1,8", "--prompt-tokens", "64,512"])
    assert (parsed.concurrency, parsed.prompt_tokens, parsed.rate) == ((1, 8), (64, 512), None)


def test_sides_have_lanes_and_headers_of_their_own() -> None:
    line = ["bench", "compare", "http://h", "http://h", "--a-lane", "batch", "--b-header", "X-A=b=c", "--header", "k=v"]
    parsed = parser().parse_args(line)
    assert (parsed.a_lane, parsed.b_lane, parsed.b_header, parsed.header) == (
        "batch",
        None,
        [("X-A", "b=c")],
        [("k", "v")],
    )


@pytest.mark.parametrize(
    "line",
    [
        ["run"],
        ["run", "http://h", "--concurrency", "1", "--rate", "2"],
        ["run", "http://h", "--concurrency", "x"],
        ["run", "http://h", "--header", "novalue"],
        ["run", "http://h", "--body", "[]"],
        ["run", "http://h", "--body", "{"],
        ["compare", "http://h"],
        ["compare", "http://h", "http://h", "--rounds", "0"],
        ["report"],
    ],
)
def test_wrong_usage_ends_with_2(line: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *line])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "line",
    [
        ["run", "ftp://h", "--model", "m"],
        ["run", "http://h", "--model", "m", "--concurrency", "0"],
        ["run", "http://h", "--model", "m", "--max-tokens", "0"],
        ["compare", "http://h", "h", "--model", "m"],
        ["report", "nowhere.json"],
    ],
)
def test_what_cannot_be_measured_ends_with_1_and_a_line(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *line]) == 1
    assert capsys.readouterr().err.startswith("tokenlane: ")


def test_a_report_of_a_file_that_is_no_result_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"hello": 1}))
    assert main(["bench", "report", str(file)]) == 1
    assert "other.json: is no result" in capsys.readouterr().err
