"""From tokens to deltas, choice by choice: stop strings, the stream interval, and what waits for what.

The rules are those of vLLM's output processor:

- a delta leaves with the first token, with the last, and whenever as many tokens as the interval are unsent;
- text that could still be the start of a stop string waits, ids and logprobs do not;
- the text of the last token and the finish travel together, a token that only ends has no text.
"""

from dataclasses import dataclass, field

from app.sim.asked import Asked
from app.sim.script import Answer
from app.sim.vocabulary import Kind, Token


@dataclass(slots=True)
class Delta:
    """What one event of one choice says.

    Args:
        index: of the choice.
        tokens: every token since the last delta, also those without text.
        generated: tokens of the choice so far.
        calls: parts of tool calls: index of the call, name or None, arguments.
    """

    index: int
    tokens: list[Token]
    generated: int
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[int, str | None, str]] = field(default_factory=list)
    finish: str | None = None
    stop_reason: str | int | None = None

    @property
    def visible(self) -> bool:
        """Whether there is more to say than token ids."""
        return bool(self.text or self.reasoning or self.calls or self.finish)


class Choice:
    """One choice while it is generated.

    Args:
        index: of the choice.
        answer: its tokens.
        asked: the request; without `stream` everything leaves in one delta at the end.
    """

    def __init__(self, index: int, answer: Answer, asked: Asked) -> None:
        self.index = index
        self.generated = 0
        self.reasoned = 0
        self.finish: str | None = None
        self._answer = answer
        self._asked = asked
        self._unsent: list[Token] = []
        self._started = not asked.stream
        self._interval = asked.interval if asked.stream else len(answer.tokens) + 1
        self._text = ""  # content that has not left
        self._tail = ""  # the end of the content that has left: a stop string may begin there
        self._hold = max((len(stop) for stop in asked.stops), default=1) - 1
        self._stop_reason: str | int | None = None

    def advance(self) -> Delta | None:
        """Generate one token; the delta that leaves with it, if one does."""
        if self._answer.tokens:
            self._take(self._answer.tokens[self.generated])
        if self.finish is None and self.generated >= len(self._answer.tokens):
            self.finish = self._answer.finish
        due = not self._started or len(self._unsent) >= self._interval
        return self._delta() if due or self.finish else None

    def abort(self) -> Delta:
        """End the choice where it is."""
        self.finish = "abort"
        return self._delta()

    def _take(self, token: Token) -> None:
        self.generated += 1
        self._unsent.append(token)
        if token.kind is Kind.REASONING:
            self.reasoned += 1
        if token.id in self._asked.stop_ids:
            self.finish, self._stop_reason = "stop", token.id
        elif token.kind is Kind.CONTENT:
            self._text += token.text
            self._look_for_stop()

    def _look_for_stop(self) -> None:
        window = self._tail + self._text
        found = [(window.find(stop), stop) for stop in self._asked.stops if stop in window]
        if not found:
            return
        at, stop = min(found)
        end = at + (len(stop) if self._asked.include_stop else 0) - len(self._tail)
        self._text = self._text[: max(end, 0)]
        self.finish, self._stop_reason = "stop", stop

    def _delta(self) -> Delta:
        self._started = True
        delta = Delta(self.index, self._unsent, self.generated, finish=self.finish, stop_reason=self._stop_reason)
        hold = 0 if self.finish or self._asked.include_stop else self._hold
        ready = len(self._text) - hold
        if ready > 0:
            delta.text, self._text = self._text[:ready], self._text[ready:]
            self._tail = (self._tail + delta.text)[-self._hold :] if self._hold else ""
        for token in self._unsent:
            if token.kind is Kind.REASONING:
                delta.reasoning += token.text
            elif token.kind in (Kind.CALL_NAME, Kind.CALL_ARGUMENTS):
                _add_call(delta, token)
        self._unsent = []
        return delta


def _add_call(delta: Delta, token: Token) -> None:
    if token.kind is Kind.CALL_NAME:
        delta.calls.append((token.call, token.text, ""))
    elif delta.calls and delta.calls[-1][0] == token.call:
        call, name, arguments = delta.calls[-1]
        delta.calls[-1] = (call, name, arguments + token.text)
    else:
        delta.calls.append((token.call, None, token.text))
