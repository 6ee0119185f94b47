"""Results as one HTML page: tables and charts, no script, nothing fetched."""

from collections.abc import Sequence
from html import escape
from typing import cast

from app.bench.report.charts import charts, together
from app.bench.report.markdown import COLUMNS, COMPARED, cell_row, comparison_row, notes, searched
from app.bench.result import Comparison, Run

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:84rem;padding:0 1rem;color:#222;background:#fafafa}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto;background:#fff}
th,td{border:1px solid #ddd;padding:.3rem .6rem;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
.charts{display:flex;flex-wrap:wrap;gap:1rem}.charts svg{border:1px solid #ddd;max-width:100%;height:auto}
li{overflow-wrap:anywhere}
"""


def html(results: Sequence[tuple[str, Run | Comparison]]) -> str:
    """A page of results, each as (name, result); several runs get charts together first."""
    runs = [(name, cast("Run", result)) for name, result in results if result["kind"] == "run"]
    parts = [_charts(together(runs))] if len(runs) > 1 else []
    for name, result in results:
        parts += [f"<h2>{escape(name)}</h2>", _table(result), _charts(charts(result)), _notes(result)]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tokenlane bench</title>'
        f'<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{STYLE}</style></head><body><h1>tokenlane bench</h1>"
    )
    return "\n".join([head, *parts, "</body></html>", ""])


def _table(result: Run | Comparison) -> str:
    if result["kind"] == "run":
        run = cast("Run", result)
        found = escape(searched(run)).replace("**", "")
        return _grid(COLUMNS, [cell_row(cell) for cell in run["cells"]]) + (f"<p>{found}</p>" if found else "")
    comparison = cast("Comparison", result)
    sides = "".join(f"<li>{side}: {escape(what)}</li>" for side, what in comparison["sides"].items())
    return f"<ul>{sides}</ul>" + _grid(COMPARED, [comparison_row(row) for row in comparison["rows"]])


def _grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _charts(drawn: dict[str, str]) -> str:
    return f'<div class="charts">{"".join(drawn.values())}</div>'


def _notes(result: Run | Comparison) -> str:
    lines = (line.removeprefix("- ").replace("`", "").replace("**", "") for line in notes(result))
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
