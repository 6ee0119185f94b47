"""Cells measured in turns to rows of ratios."""

from app.bench.comparison import FIGURES, rows, sequence
from app.bench.load import Load
from app.bench.outcome import Outcome
from app.bench.result import Cell, Row
from app.bench.summary import Record, cell


def told(ttft: float, *, failed: int = 0) -> Cell:
    good = [Outcome("ok", ttft=ttft, gaps=(0.01,), span=0.01, tokens=2, events=3, ended=1)] * 4
    return cell(Record(Load(1, None, 4), [*good, *[Outcome("cut")] * failed], seconds=1))


def row(found: list[Row], name: str) -> Row:
    return next(one for one in found if one["name"] == name)


def test_sides_take_turns_as_abba() -> None:
    assert "".join(sequence(2)) == "ABBAABBA"


def test_a_row_has_both_medians_their_ratio_and_their_difference() -> None:
    found = row(rows([(side, told({"A": 0.1, "B": 0.11}[side])) for side in sequence(3)]), "TTFT P50, ms")
    assert (found["a"], found["b"]) == (100, 110)
    assert found["ratio"] == {"median": 1.1, "low": 1.1, "high": 1.1, "n": 3}
    assert found["difference"] == {"median": 10, "low": 10, "high": 10, "n": 3}


def test_a_side_without_samples_has_no_ratio_but_its_errors_are_compared() -> None:
    broken = cell(Record(Load(1, None, 4), [Outcome("connect")], seconds=1))
    found = rows([(side, told(0.1) if side == "A" else broken) for side in sequence(2)])
    assert row(found, "TTFT P50, ms")["b"] is None
    assert row(found, "TTFT P50, ms")["ratio"] is None
    errors = row(found, "share of errors")
    assert (errors["a"], errors["b"], errors["ratio"]) == (0, 1, None)
    assert errors["difference"] is not None


def test_a_round_that_was_cut_is_left_out() -> None:
    cells = [(side, told(0.1 if side == "A" else 0.2)) for side in sequence(2)][:7]
    ratio = row(rows(cells), "TTFT P50, ms")["ratio"]
    assert ratio is not None
    assert ratio["n"] == 1


def test_nothing_measured_has_rows_without_figures() -> None:
    found = rows([])
    assert [one["name"] for one in found] == list(FIGURES)
    assert all(one["a"] is None and one["ratio"] is None for one in found)
