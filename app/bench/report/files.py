"""Writes reports to files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import orjson

from app.bench.report.charts import charts, together
from app.bench.report.html import html as page
from app.bench.report.png import NoPng
from app.bench.report.png import png as draw
from app.bench.result import Comparison, Run, write

Named = Sequence[tuple[str, Run | Comparison]]


class NotWritten(Exception):
    """A picture could not be drawn."""


def write_all(
    results: Named,
    *,
    json: Path | None = None,
    html: Path | None = None,
    svg: Path | None = None,
    png: Path | None = None,
) -> None:
    """Writes (name, result) pairs in each format that has a place; several results are a JSON object by name.

    Raises:
        NotWritten: there is no browser for PNG; everything else has been written.
        OSError: a file cannot be written.
    """
    if json is not None and len(results) == 1:
        write(json, results[0][1])
    elif json is not None:
        json.write_bytes(orjson.dumps(dict(results), option=orjson.OPT_INDENT_2) + b"\n")
    if html is not None:
        html.write_text(page(results), encoding="utf-8")
    for folder in filter(None, (svg, png)):
        _pictures(results, folder)
    for file in sorted(png.glob("*.svg")) if png is not None else ():
        try:
            draw(file, file.with_suffix(".png"))
        except NoPng as error:
            raise NotWritten(str(error)) from error


def _pictures(results: Named, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in _drawn(results):
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


def _drawn(results: Named) -> Iterator[tuple[str, str]]:
    runs = [(name, cast("Run", result)) for name, result in results if result["kind"] == "run"]
    if len(runs) > 1:
        yield from together(runs).items()
    for name, result in results:
        yield from ((f"{name}-{chart}", picture) for chart, picture in charts(result).items())
