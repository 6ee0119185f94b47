"""What is asked: cells of load, and the bytes of their requests. Pure."""

from dataclasses import dataclass, replace

import orjson

MODEL = "gpt-oss-20b"


@dataclass(frozen=True, slots=True)
class Cell:
    """A load.

    Args:
        name: for the command line.
        clients: how many ask at once; each asks for its next answer when one is over.
        gap: milliseconds that the engine takes a token; 0: as fast as it can.
        tokens: of an answer.
        answers: that each client asks for.
        ramp: seconds over which the clients begin.
        stream: whether answers are streamed.
        stamped: whether each token is the time at which the engine sent it, instead of prose.
    """

    name: str
    clients: int
    gap: float
    tokens: int
    answers: int = 1
    ramp: float = 0.0
    stream: bool = True
    stamped: bool = True

    @property
    def unit(self) -> str:
        """What its costs are divided by."""
        return "token" if self.stream else "request"

    @property
    def title(self) -> str:
        """In words."""
        if not self.stream:
            return f"{self.clients} clients, whole answers of {self.tokens} tokens"
        return f"{self.clients} streams, {f'{self.gap:g} ms a token' if self.gap else 'as fast as possible'}"

    def request(self, port: int) -> bytes:
        """A request of it; the connection is kept. No reasoning is wanted, whatever a proxy adds to the body."""
        message = {"role": "user", "content": "hi"}
        body: dict[str, object] = {"model": MODEL, "max_tokens": self.tokens, "messages": [message]}
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        data = orjson.dumps(body)
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"x-sim-ttft-ms: 0\r\nx-sim-itl-ms: {self.gap:g}\r\nx-sim-stamp: {int(self.stamped)}\r\n"
            f"x-sim-reasoning: 0\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data


CELLS = {
    cell.name: cell
    for cell in (
        Cell("paced-20", clients=64, gap=20, tokens=128, answers=2, ramp=1.0),
        Cell("paced-3", clients=16, gap=3, tokens=400, answers=3, ramp=0.5),
        Cell("paced-85", clients=8, gap=85, tokens=40, answers=2, ramp=1.0),
        Cell("fast", clients=32, gap=0, tokens=256, answers=4),
        Cell("plain", clients=16, gap=0, tokens=16, answers=100, stream=False, stamped=False),
    )
}
"""The comparison's own. A simulated engine in Python feeds them on a part of a core, but for the last two."""

PROSE = Cell("prose", clients=1, gap=0, tokens=64, stamped=False)
"""Whether a proxy gives the engine's text, all of it and nothing else: letters of several scripts, quotes, escapes."""

STAMPED = replace(PROSE, name="stamped", stamped=True)
"""Whether a proxy hands the engine the headers of a request: pace and stamps are asked for by them."""

PLAIN = replace(CELLS["plain"], clients=1, answers=1)
"""The same for a whole answer; the text is that of all answers of the cell."""


def chosen(names: str) -> list[Cell]:
    """Cells by their names, with commas between.

    Raises:
        ValueError: there is none of a name.
    """
    unknown = [name for name in names.split(",") if name not in CELLS]
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}; there are {', '.join(CELLS)}")
    return [CELLS[name] for name in names.split(",")]
