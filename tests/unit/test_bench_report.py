"""Results for people: nothing lost, nothing fetched, nothing that is no XML."""

import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from app.bench.comparison import rows, sequence
from app.bench.load import Load
from app.bench.outcome import Outcome
from app.bench.progress import Progress
from app.bench.report.charts import charts, together
from app.bench.report.files import write_all
from app.bench.report.html import html
from app.bench.report.markdown import markdown, number
from app.bench.report.svg import Scale, Series, chart
from app.bench.result import Cell, Comparison, NoResult, Run, read, write
from app.bench.summary import Record, cell

NASTY = '<script src="http://x/">&'


def measured(load: Load, *outcomes: Outcome, cpu: float = 0.1, lags: tuple[float, ...] = (0.001,)) -> Cell:
    return cell(Record(load, list(outcomes), seconds=2, cpu=cpu, lags=list(lags)))


def good(ttft: float, prompt: int = 64) -> Outcome:
    return Outcome("ok", prompt, 0, 1, ttft, (0.01, 0.02), 0.03, 3, True, 70, 5)


def a_run(*cells: Cell, **changes: Any) -> Run:
    run: Run = {
        "format": 1,
        "kind": "run",
        "facts": {"command": "tokenlane bench run", "machine": {"cpu": "a processor"}, "commit": "abc"},
        "workload": {
            "model": "m",
            "endpoint": "chat",
            "prompt_tokens": [64],
            "shared_prefix": 0,
            "max_tokens": 8,
            "seed": 1,
        },
        "cells": list(cells),
        "search": None,
        "interrupted": False,
    }
    return {**run, **changes}  # type: ignore[typeddict-item]


def a_comparison(*cells: Cell) -> Comparison:
    run = a_run()
    named = list(zip(sequence(1), cells, strict=False))
    return {
        "format": 1,
        "kind": "compare",
        "facts": run["facts"],
        "workload": run["workload"],
        "sides": {"A": "http://a", "B": f"http://b, x: {NASTY}"},
        "rows": rows(named),
        "cells": named,
        "interrupted": False,
    }


def users(count: int) -> Load:
    return Load(count, None, 4)


TWO = a_run(measured(users(1), good(0.1), good(0.2)), measured(users(8), good(0.3), Outcome("cut", detail=NASTY)))


def test_markdown_has_a_row_a_load_the_errors_and_the_circumstances() -> None:
    lines = markdown(TWO).splitlines()
    assert lines[2].startswith("| 1 user | 2/2 | none | 1.00 | 3.00 | 150 / 195 / 199 |")
    assert lines[3].startswith("| 8 users | 1/2 | 1 cut |")
    assert any("a processor" in line for line in lines)
    assert any("commit abc" in line for line in lines)


def test_markdown_tells_first_tokens_by_length_of_prompt() -> None:
    work = {**TWO["workload"], "prompt_tokens": [64, 512]}
    lines = markdown(a_run(measured(users(1), good(0.1), good(0.5, 512)), workload=work)).splitlines()
    assert "| TTFT P50 / P95 / P99, ms | 64 words | 512 words |" in lines
    assert "| 1 user | 100 / 100 / 100 | 500 / 500 / 500 |" in lines


def test_markdown_says_what_a_search_found_and_why_it_stopped() -> None:
    run = a_run(search={"limit_ms": 1000, "found": 37, "stopped": "38 failed"})
    assert "Greatest concurrency with TTFT P95 under 1,000 ms: **37** (38 failed)." in markdown(run)


@pytest.mark.parametrize(
    ("told", "doubt"),
    [
        (measured(users(1), good(0.1), cpu=1.9), "used more than 70% of a core at: 1 user"),
        (measured(users(1), good(0.1), lags=(0.5,)), "more than 10 ms late (P99) at: 1 user"),
        (measured(users(1), Outcome("ok", ttft=1, tokens=1)), "stated no usage"),
    ],
)
def test_what_puts_a_figure_in_doubt_is_said(told: Cell, doubt: str) -> None:
    assert doubt in markdown(a_run(told))


def test_an_interval_from_few_rounds_is_doubted() -> None:
    text = markdown(a_comparison(*(measured(users(1), good(0.1)) for _ in range(4))))
    assert "an interval from 1 round(s) holds the truth in 0% of cases" in text


def test_a_result_without_a_doubt_has_none() -> None:
    assert "**" not in markdown(TWO)


def test_an_interrupted_run_says_so() -> None:
    assert "it was interrupted" in markdown(a_run(interrupted=True))


def test_a_comparison_tells_ratio_and_interval() -> None:
    text = markdown(a_comparison(*(measured(users(1), good(ttft)) for ttft in (0.1, 0.12, 0.12, 0.1))))
    assert "| TTFT P50, ms | 110 | 110 |" not in text
    assert "| TTFT P50, ms | 100 | 120 | 1.20 [1.20, 1.20] | 20.0 [20.0, 20.0] |" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.01234, "0.0123"),
        (1, "1.00"),
        (9.996, "10.0"),
        (99.96, "100"),
        (12345.6, "12,346"),
        (-15, "-15.0"),
    ],
)
def test_a_figure_has_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def every_chart() -> dict[str, str]:
    compared = a_comparison(*(measured(users(1), good(0.1)) for _ in range(4)))
    empty = a_run(measured(users(2), Outcome("connect")))
    return {
        **charts(TWO),
        **{f"compare-{name}": drawn for name, drawn in charts(compared).items()},
        **{f"empty-{name}": drawn for name, drawn in charts(empty).items()},
        **{f"nothing-{name}": drawn for name, drawn in charts(a_comparison()).items()},
        **together([(NASTY, TWO), ("two", TWO)]),
    }


@pytest.mark.parametrize(("name", "drawn"), every_chart().items())
def test_every_chart_is_xml_within_its_frame_and_fetches_nothing(name: str, drawn: str) -> None:
    root = ET.fromstring(drawn)  # noqa: S314 - it was drawn here
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert not re.search(r"(href|src|url\()", re.sub(r"&lt;.*?&gt;", "", drawn)), name
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height


def test_a_line_goes_up_where_values_do() -> None:
    root = ET.fromstring(chart("t", "x", "y", [Series("s", ((1, 1), (2, 5), (4, 10)))]))  # noqa: S314
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    xs, ys = zip(*(map(float, pair.split(",")) for pair in line.attrib["points"].split()), strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)


@pytest.mark.parametrize(
    "scale", [Scale(0, 7, 0, 100), Scale(0.3, 900, 0, 100, log=True), Scale(5, 5, 0, 100, log=True)]
)
def test_ticks_lie_within_their_scale_and_are_few(scale: Scale) -> None:
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 12
    assert all(0 <= scale.at(tick) <= 100 for tick in ticks)


class Used(HTMLParser):
    """The names of the tags and attributes that a page uses."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_page_has_no_script_fetches_nothing_and_escapes_what_it_was_told() -> None:
    page = html([(NASTY, TWO), ("b", a_comparison(*(measured(users(1), good(0.1)) for _ in range(4))))])
    used = Used()
    used.feed(page)
    assert not used.tags & {"script", "img", "link", "iframe"}
    assert not used.attributes & {"src", "href"}
    assert "default-src 'none'" in page
    assert page.count("<svg") == 4 + 3


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "r.json", TWO)
    assert read(tmp_path / "r.json") == TWO


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 2, "kind": "run"}', '{"format": 1, "kind": "song"}'])
def test_a_file_that_is_no_result_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(content)
    with pytest.raises(NoResult, match=r"r\.json"):
        read(file)


def test_all_files_that_are_asked_for_are_written(tmp_path: Path) -> None:
    write_all([("one", TWO), ("two", TWO)], json=tmp_path / "a.json", html=tmp_path / "a.html", svg=tmp_path / "svg")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert {"one-ttft.svg", "two-throughput.svg", "together-ttft.svg"} <= {
        file.name for file in (tmp_path / "svg").iterdir()
    }


class Terminal(StringIO):
    """One that says it is."""

    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal() -> None:
    out = Terminal()
    progress = Progress(out)
    progress.begin("8 users", users(8))
    progress.step(Outcome("cut"))
    progress.end("done")
    assert "8 users [######..................]  25% 1 requests, 1 errors" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2Kdone\n")


def test_progress_is_plain_lines_elsewhere() -> None:
    out = StringIO()
    progress = Progress(out)
    progress.begin("8 users", users(8))
    progress.step(Outcome("ok"))
    progress.end("8 users: done")
    assert out.getvalue() == "8 users: done\n"
