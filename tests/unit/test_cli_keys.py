"""`tokenlane keys`."""

from pathlib import Path

import pytest

from app.cli import main
from app.cli.keys import seconds


def keys(folder: Path, *words: str) -> int:
    return main(["keys", *words, "--set", f"batch.data_dir={folder}"])


def test_a_key_is_made_shown_once_listed_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rights = ["--lane", "batch", "--model", "m", "--rpm", "60", "--tpm", "9000", "--parallel", "4", "--expires", "30d"]
    rights += ["--batch-lines", "50000"]
    assert keys(tmp_path, "new", "nightly jobs", *rights) == 0
    made = capsys.readouterr()
    secret = made.out.strip()
    assert secret.startswith("tl-")
    assert len(secret) == 46
    assert "shown this once" in made.err
    assert keys(tmp_path, "list") == 0
    listed = capsys.readouterr().out
    assert secret not in listed
    assert secret[:11] in listed
    for part in (
        "good",
        "nightly jobs",
        "lanes batch",
        "models m",
        "60 requests/min",
        "9000 tokens/min",
        "4 at once",
        "50000 lines of batches",
        "until",
    ):
        assert part in listed
    assert secret.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("*"))
    assert keys(tmp_path, "revoke", "nightly jobs") == 0
    assert keys(tmp_path, "list") == 0
    assert "revoked" in capsys.readouterr().out
    assert keys(tmp_path, "revoke", "nightly jobs") == 1
    assert "no key that is good" in capsys.readouterr().err


def test_a_name_is_free_again_when_its_key_is_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(tmp_path, "new", "team") == 0
    assert keys(tmp_path, "new", "team") == 1
    assert "another name" in capsys.readouterr().err
    assert keys(tmp_path, "revoke", "team") == 0
    assert keys(tmp_path, "new", "team") == 0


def test_a_lane_that_there_is_not_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(tmp_path, "new", "team", "--lane", "nightly") == 1
    assert "there are lowlatency, batch" in capsys.readouterr().err


def test_a_database_that_cannot_be_opened_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "batch.sqlite3").write_text("this is no database, whatever its name says")
    assert keys(tmp_path, "list") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cannot be used" in error


@pytest.mark.parametrize(("text", "expected"), [("90m", 5400), ("12h", 43200), ("30d", 2592000)])
def test_a_time_is_a_number_and_a_unit(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("words", [["--rpm", "0"], ["--expires", "soon"], ["--expires", "0d"], ["--parallel", "-1"]])
def test_a_limit_that_makes_no_sense_is_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        keys(tmp_path, "new", "team", *words)
    assert caught.value.code == 2
