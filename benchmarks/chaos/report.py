"""What a run has seen, and whether all of it is well. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chaos.asks import Ask
from benchmarks.chaos.oracle import Answer, Wrong, ending_of

SHOWN = 5
"""Wrong answers of each kind that are told in full."""
GROWTH = 1.10
"""What the gateway's memory may be at the end, measured by what it was after the warm-up."""


@dataclass(slots=True)
class Report:
    """The counts of one run. `left` are things that somebody should have given back."""

    seed: str
    requests: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    behaviours: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    troubled: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)
    left: dict[str, Any] = field(default_factory=dict)
    rss_mib: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def count(self, ask: Ask, answer: Answer, *, troubled: bool, wrongs: list[Wrong]) -> None:
        """Takes one answer and what is wrong with it."""
        self.requests += 1
        self.troubled += troubled
        kind = str(answer.status or "no answer")
        if answer.status == 200 and ask.stream:
            kind += f" {ending_of(answer)}"
        self.answers[kind] += 1
        self.behaviours[ask.behaviour] += 1
        self.faults[(ask.fault or "").partition("@")[0].partition(";")[0] or "no fault"] += 1
        for wrong in wrongs:
            self.wrong[wrong.kind] += 1
            self.lost += wrong.lost
            if self.wrong[wrong.kind] <= SHOWN:
                about = {
                    "ask": ask.name,
                    "fault": str(ask.fault),
                    "behaviour": ask.behaviour,
                    "troubled": str(troubled),
                }
                about |= {"headers": str(answer.headers), "body": repr(answer.body[-600:])}
                self.examples.append({"kind": wrong.kind, "details": wrong.details[:1500], **about})

    @property
    def growth(self) -> float:
        """The memory at the end as a multiple of that after the warm-up; 1 without both."""
        return self.rss_mib["end"] / self.rss_mib["start"] if {"start", "end"} <= self.rss_mib.keys() else 1.0

    def problems(self) -> list[str]:
        """What is not well; empty if all is."""
        found = [f"{count} wrong answers: {kind}" for kind, count in sorted(self.wrong.items())]
        found += [f"left: {what}: {count}" for what, count in self.left.items() if count]
        if not self.requests:
            found.append("nothing was asked")
        if self.growth > GROWTH:
            found.append(f"memory grew by {self.growth - 1:.0%}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON may hold it."""
        counters = {name: dict(getattr(self, name).most_common()) for name in _COUNTERS}
        numbers = {"seed": self.seed, "requests": self.requests, "in_trouble": self.troubled, "lost": self.lost}
        memory = {"rss_mib": self.rss_mib, "growth": round(self.growth, 3)}
        return numbers | counters | memory | {"left": self.left, "notes": self.notes, "examples": self.examples}

    def text(self) -> str:
        """All of it for people."""
        lines = [
            f"seed {self.seed}: {self.requests} requests, {self.troubled} of them while their engine was in trouble"
        ]
        for name in _COUNTERS:
            counts = ", ".join(f"{key} {count}" for key, count in getattr(self, name).most_common())
            lines.append(f"{name:>10}: {counts or 'none'}")
        lines.append(f"{'lost':>10}: {self.lost} characters")
        lines.append(f"{'left':>10}: {', '.join(f'{what} {count}' for what, count in self.left.items())}")
        memory = ", ".join(f"{when} {size:.1f} MiB" for when, size in self.rss_mib.items())
        lines.append(f"{'memory':>10}: {memory}, {self.growth - 1:+.1%}")
        lines += [f"{name:>10}: {value}" for name, value in self.notes.items()]
        return "\n".join(lines)


_COUNTERS = ("answers", "behaviours", "faults", "troubles", "wrong")
