"""A command line of `vllm serve`, judged option by option: by vLLM's parser, by history, and by rules."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from app.engine import rules
from app.engine.catalogue import Catalogue, Gone, History
from app.engine.finding import Finding, Level
from app.engine.line import options_of, spelt
from app.engine.parsers import Answer, Ask
from app.engine.rules import Facts


@dataclass(frozen=True, slots=True)
class Report:
    """The judgement of a line.

    Args:
        source: the parser that was asked.
        version: of its vLLM.
        findings: what is to be said, in the line's order.
    """

    source: str
    version: str
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether an engine would start, as far as can be told without starting it."""
        return all(finding.level is not Level.ERROR for finding in self.findings)


def check(words: Sequence[str], ask: Ask, history: History, facts: Facts) -> Report:
    """Judges a line.

    Args:
        words: of the line after `vllm serve MODEL`.
        ask: a parser.
        history: what became of options that are gone.
        facts: what is known about the machine and the model.

    Raises:
        NoAnswer: the installed vLLM cannot be asked.
    """
    options = options_of(words)
    answer = ask([*options, words])
    findings = [
        finding
        for option, refusal in zip(options, answer.refusals, strict=False)
        if (finding := _judge(option, refusal, answer.catalogue, history)) is not None
    ]
    if not any(finding.level is Level.ERROR for finding in findings):
        findings += _whole(words, answer)
    accepted = [option for option, refusal in zip(options, answer.refusals, strict=False) if refusal is None]
    findings += rules.broken(rules.Line.of(accepted, answer.catalogue), facts)
    return Report(answer.source, answer.catalogue.version, findings)


def _whole(words: Sequence[str], answer: Answer) -> list[Finding]:
    """What the parser says about the line as a whole, when it takes each option alone."""
    refusal = answer.refusals[-1]
    return [Finding(Level.ERROR, " ".join(words[:1]), refusal)] if refusal else []


def _judge(option: list[str], refusal: str | None, catalogue: Catalogue, history: History) -> Finding | None:
    name, values = spelt(option)
    text = " ".join(option)
    if refusal is None:
        return None if name in catalogue.by_name else _abbreviation(text, name, catalogue, history)
    gone = history.options.get(name.removeprefix("--"))
    if gone is not None and name not in catalogue.by_name:
        return Finding(Level.ERROR, text, f"gone: {gone.why}", gone.successor)
    renamed = _renamed(name, values, catalogue, history)
    if renamed is not None:
        return Finding(Level.ERROR, text, f"no value of {name}: {renamed.why}", renamed.successor)
    if name not in catalogue.by_name and not catalogue.starting_with(name):
        return Finding(Level.ERROR, text, "there is no such option", _closest(name, catalogue))
    return Finding(Level.ERROR, text, _first_line(refusal))


def _abbreviation(text: str, name: str, catalogue: Catalogue, history: History) -> Finding:
    """An option that is accepted, but only since argparse completes what can mean one option alone."""
    gone = history.options.get(name.removeprefix("--"))
    meant = sorted({catalogue.by_name[long].name for long in catalogue.starting_with(name)})
    why = f"; {gone.why}" if gone else ""
    return Finding(Level.WARNING, text, f"accepted as an abbreviation{why}", ", ".join(meant))


def _renamed(name: str, values: list[str], catalogue: Catalogue, history: History) -> Gone | None:
    option = catalogue.by_name.get(name)
    if option is None or not values:
        return None
    return history.values.get(option.name.removeprefix("--"), {}).get(values[0].lower())


def _closest(name: str, catalogue: Catalogue) -> str:
    return next(iter(difflib.get_close_matches(name, list(catalogue.by_name), n=1, cutoff=0.8)), "")


def _first_line(refusal: str) -> str:
    return refusal.strip().splitlines()[0]
