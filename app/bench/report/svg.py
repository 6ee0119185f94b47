"""Charts as SVG: text that any browser draws, with nothing fetched and no script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from app.bench.report.markdown import number

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 76, 16, 36, 78
COLOURS = ("#3266c8", "#d1603d", "#2e8b57", "#8a56b8", "#b8860b", "#c2457a", "#4a8fa8", "#767676")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444}.title{font-size:14px;font-weight:600;fill:#222}"
    ".grid{stroke:#ddd;stroke-width:1}.axis{stroke:#888;stroke-width:1}.line{fill:none;stroke-width:2}"
)


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: its name and points (x, y) in ascending x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to pixels. Logarithmic scales hold values above zero only.

    Args:
        low, high: of the values; equal ones are spread.
        start, end: of the pixels.
        log: logarithmic.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((value - low) / (high - low) if high > low else 0.5)

    def ticks(self) -> list[float]:
        """Round values within it: 1, 2 and 5 times powers of ten, all of them or evenly spaced ones."""
        if self.high <= self.low:
            return [self.low]
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            few = (1,) if len(powers) > 4 else (1, 2, 5)
            found = [digit * 10.0**power for power in powers for digit in few]
        else:
            step = nice((self.high - self.low) / 5)
            found = [step * n for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [tick for tick in found if self.low <= tick <= self.high] or [self.low, self.high]


def nice(step: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below a step above zero."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= step * (1 - 1e-9))


def chart(title: str, x: str, y: str, series: Sequence[Series], *, log_x: bool = False) -> str:
    """Lines over an x axis, logarithmic if asked; y begins at 0. Points that a logarithm cannot show are left out."""
    shown = [Series(one.name, tuple(p for p in one.points if p[0] > 0 or not log_x)) for one in series]
    points = [point for one in shown for point in one.points]
    if not points:
        return drawing(title, HEIGHT, [_text(WIDTH / 2, HEIGHT / 2, "no samples")])
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    across = Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT, log_x)
    up = Scale(0, max(ys) or 1, HEIGHT - BOTTOM, TOP)
    parts = [*_axes(across, up, x, y)]
    for index, one in enumerate(shown):
        parts += _line(one, across, up, COLOURS[index % len(COLOURS)])
    return drawing(title, HEIGHT, [*parts, *_legend([one.name for one in shown])])


def ratios(title: str, rows: Sequence[tuple[str, float, float, float]]) -> str:
    """A dot with its interval for each (name, median, low, high), around the line of 1, on a logarithmic scale."""
    height = TOP + 26 * len(rows) + 44
    if not rows:
        return drawing(title, height, [_text(WIDTH / 2, TOP + 20, "no whole round")])
    low, high = min(0.9, *(row[2] for row in rows)), max(1.1, *(row[3] for row in rows))
    across = Scale(low, high, 150, WIDTH - RIGHT - 10, log=True)
    bottom = height - 34
    one = across.at(1)
    parts = [f'<line class="axis" x1="{one:.1f}" x2="{one:.1f}" y1="{TOP}" y2="{bottom}"/>']
    parts += [_text(across.at(tick), bottom + 16, number(tick)) for tick in sorted({low, 1.0, high})]
    for index, (name, middle, least, most) in enumerate(rows):
        y = TOP + 26 * index + 13
        parts.append(_text(142, y + 4, name, "end"))
        left, dot, right = (across.at(value) for value in (least, middle, most))
        parts.append(
            f'<line stroke="{COLOURS[0]}" stroke-width="2" x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}"/>'
        )
        parts.append(f'<circle fill="{COLOURS[0]}" cx="{dot:.1f}" cy="{y}" r="4"/>')
    return drawing(title, height, parts)


def drawing(title: str, height: float, parts: Sequence[str]) -> str:
    """A whole SVG document with a white ground, so that it can be read on any page."""
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    name = f'<text class="title" x="{LEFT}" y="22">{escape(title)}</text>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, name, *parts, "</svg>"])


def _axes(across: Scale, up: Scale, x: str, y: str) -> list[str]:
    left, right, bottom = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in up.ticks():
        at = up.at(tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(_text(left - 6, at + 4, f"{tick:,g}", "end"))
    for tick in across.ticks():
        at = across.at(tick)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(_text(at, bottom + 18, f"{tick:,g}"))
    parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(_text((left + right) / 2, bottom + 36, x))
    parts.append(
        f'<text text-anchor="middle" transform="translate(14 {(TOP + bottom) / 2}) rotate(-90)">{escape(y)}</text>'
    )
    return parts


def _line(series: Series, across: Scale, up: Scale, colour: str) -> list[str]:
    pixels = [(across.at(x), up.at(y)) for x, y in series.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
    parts = [f'<polyline class="line" stroke="{colour}" points="{path}"/>']
    if len(pixels) <= 16:
        parts += [f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in pixels]
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    parts: list[str] = []
    x, y = float(LEFT), HEIGHT - 26.0
    for index, name in enumerate(names):
        room = 26 + 7 * len(name)
        if x + room > WIDTH and x > LEFT:
            x, y = float(LEFT), y + 16
        parts.append(
            f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{COLOURS[index % len(COLOURS)]}"/>'
        )
        parts.append(_text(x + 14, y, name, "start"))
        x += room
    return parts


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
