"""Folded stacks to a flame graph: pure. A frame's width is its share of all samples; narrow ones are left out.

A folded stack is a line of frames, the outermost first, with semicolons between, and a count: what py-spy writes as
`raw`. Frames are `name (file:line)`; those of one function are one, whatever the line.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, ROW, TOP, EDGE = 1200, 17, 58, 10
NARROWEST = 0.006
"""Share of all samples below which a frame is not drawn."""
LETTER = 6.3
"""Pixels of a letter."""
KINDS = {"tokenlane": "#7fb2e5", "other Python": "#f2c879", "native code": "#b9c8b0"}
OWN = re.compile(r"\((app|gateway|config)/")
LOOP_NAME = "event loop"
_LINE = re.compile(r":\d+\)$")
_LOOP = re.compile(
    r"\((loop\.c|core\.c|linux\.c|posix-poll\.c|loop-watcher\.c|queue\.h|timer\.c|stream\.c|uvloop/[^)]*)\)$"
)
_NOISE = re.compile(r"^0x|\(object\.h\)$|^_?Py_X?DECREF|^_?PyObject_(Vector|Fast)?[cC]all|^PyEval_|^_PyEval_")
"""Addresses without names, and what a compiler put into every other function."""
_BEFORE = "Runner.run ("
"""The last frame that all stacks of an event loop have."""


@dataclass(slots=True)
class Frame:
    """A function in one place of the stacks: its samples, and what it called."""

    name: str
    samples: int = 0
    calls: dict[str, "Frame"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Box:
    """A frame as it is drawn: `left` and `width` as shares of all samples, `level` from the outermost, 0."""

    name: str
    left: float
    width: float
    level: int


def fold(lines: Iterable[str]) -> Frame:
    """The tree of the event loop's stacks; its root is all of them.

    Those of other threads are left out: waiting for work looks like work to py-spy.
    """
    root = Frame("all")
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        if _BEFORE not in stack or not count.isdigit():
            continue
        samples = int(count)
        root.samples += samples
        frame = root
        for name in told(stack.split(";")):
            frame = frame.calls.setdefault(name, Frame(name))
            frame.samples += samples
    return root


def told(stack: Sequence[str]) -> list[str]:
    """The frames of a stack that say something: none outside of the event loop, and its own as one."""
    names = [_LINE.sub(")", name) for name in stack]
    begin = next((at for at, name in enumerate(names) if name.startswith(_BEFORE)), -1)
    names = [LOOP_NAME if _LOOP.search(name) else name for name in names[begin + 1 :]]
    names = [name for name in names if not _NOISE.search(name)]
    names = [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
    if len(names) > 1 and names[0] == LOOP_NAME:
        names = names[1:]
    return names or [LOOP_NAME]


def boxes(root: Frame) -> list[Box]:
    """What is drawn, in rows from the outermost; what a function calls is sorted by name."""
    found: list[Box] = []

    def lay(frame: Frame, left: float, level: int) -> None:
        for name in sorted(frame.calls):
            call = frame.calls[name]
            width = call.samples / root.samples
            if width >= NARROWEST:
                found.append(Box(name, left, width, level))
                lay(call, left, level + 1)
            left += width

    lay(root, 0.0, 0)
    return found


def kind(name: str) -> str:
    """Whose a frame is."""
    if OWN.search(name):
        return "tokenlane"
    return "other Python" if name.endswith(".py)") else "native code"


def drawn(title: str, shown: Sequence[Box]) -> str:
    """The picture, outermost frames at the bottom. Each frame tells its name and share where a pointer rests."""
    rows = max((box.level for box in shown), default=0) + 1
    height = TOP + rows * ROW + EDGE
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        "<style>text{font:11px monospace;fill:#222}.t{font:600 14px system-ui,sans-serif}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="t" x="{EDGE}" y="22">{escape(title)}</text>',
    ]
    for index, (name, colour) in enumerate(KINDS.items()):
        x = EDGE + index * 140
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="42">{name}</text>')
    return "\n".join([*parts, *(_box(box, height) for box in shown), "</svg>", ""])


def _box(box: Box, height: int) -> str:
    x = EDGE + box.left * (WIDTH - 2 * EDGE)
    width = box.width * (WIDTH - 2 * EDGE) - 0.5
    y = height - EDGE - (box.level + 1) * ROW
    place = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}"'
    title = f"<title>{escape(box.name)}: {box.width:.1%}</title>"
    rect = f'<rect {place} fill="{KINDS[kind(box.name)]}"/>'
    text = box.name.partition(" (")[0][: max(0, int((width - 6) / LETTER))]
    label = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(text)}</text>' if len(text) > 2 else ""
    return f"<g>{title}{rect}{label}</g>"
