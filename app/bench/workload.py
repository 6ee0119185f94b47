"""What is asked: prompts of set lengths, each different from its first word on unless a prefix is to be shared.

No tokenizer is needed: the prompts are made of short English words, each of which is one token in the vocabularies of
current models. What the engine counted is in the result beside what was asked for.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_TEXT = """
able about above after again air all along also and any apple are around ask away back ball bank base bath
bear beat been best big bird black blue boat body book both box boy bread bring brown build burn bus but buy call
came camp can cap car card care case cat chair city clean clear close cloud coat cold come cook cool corn cost cow
cross cup cut dark day deep desk did dog door down draw dream dress drink drive dry each ear early earth east easy
eat edge egg end even ever eye face fact fall far farm fast feel feet few field fill find fine fire first fish five
floor fly food foot form four free from front full game gave girl give glass goal gold good grass great green ground
group grow had half hand happy hard has hat have head hear heart heat help her here high hill him his hold home hope
horse hot hour house how idea into iron just keep kind king knew know lake land large last late lead left less let
life light like line list live long look love low made make man many map mark may mean meet mile milk mind moon more
most move much music must name near need never new next night nine north note now off old once one only open other
our out over page paper park part past pay plan plant play point poor pull push put rain read real red rest rich
ride right river road rock room round rule run safe said salt same sand sat saw say school sea seat see seed seem
send ship shoe shop short show side sing sit six size skin sky sleep slow small snow soft some song soon sound south
space speak spend stand star start stay step still stone stop store story such sun sure table take talk tall team
tell ten test than that them then they thing think this those three time too took top town tree trip true try turn
two under until use very view visit voice wait walk wall want warm was wash water wave way wear week well went west
what wheel when where which while white who why wide will wind wish with wood word work world would write year yes
yet you young
"""
WORDS = tuple(_TEXT.split())
PATHS = {"chat": "/chat/completions", "completions": "/completions"}
"""Endpoint -> its path below `/v1`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of a measurement, each a function of the seed, the cell's name and its number.

    Args:
        model: as it is named in a request.
        endpoint: "chat" or "completions".
        prompt_tokens: lengths of prompts in words, taken in turn.
        shared_prefix: words that all prompts of a seed begin with.
        max_tokens: most tokens of an answer.
        ignore_eos: ask vLLM to go on to `max_tokens`.
        seed: of all words.
        extra: fields that every body gets beside these; they win.

    Raises:
        ValueError: a number is out of its bounds, or the endpoint is unknown.
    """

    model: str
    endpoint: str = "chat"
    prompt_tokens: tuple[int, ...] = (64,)
    shared_prefix: int = 0
    max_tokens: int = 128
    ignore_eos: bool = False
    seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.endpoint not in PATHS:
            raise ValueError(f"endpoint must be one of {', '.join(PATHS)}")
        if not self.prompt_tokens or min(self.prompt_tokens) < 1 or self.max_tokens < 1:
            raise ValueError("prompts and answers must have at least one token")
        if not 0 <= self.shared_prefix <= min(self.prompt_tokens):
            raise ValueError("the shared prefix must fit into the shortest prompt")

    @property
    def path(self) -> str:
        """Where it is asked, below `/v1`."""
        return PATHS[self.endpoint]

    def length(self, number: int) -> int:
        """Words of the prompt of a request."""
        return self.prompt_tokens[number % len(self.prompt_tokens)]

    def prompt(self, cell: str, number: int) -> str:
        """The prompt of a request. Equal only for an equal seed, cell and number."""
        shared = random.Random(f"{self.seed}").choices(WORDS, k=self.shared_prefix)
        own = random.Random(f"{self.seed}/{cell}/{number}").choices(WORDS, k=self.length(number) - len(shared))
        return " ".join(shared + own)

    def body(self, cell: str, number: int) -> bytes:
        """The body of a request, which asks for a stream with its usage."""
        prompt = self.prompt(cell, number)
        said: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt}]} if self.endpoint == "chat" else {"prompt": prompt}
        )
        body: dict[str, Any] = {"model": self.model, **said, "max_tokens": self.max_tokens, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if self.ignore_eos:
            body["ignore_eos"] = True
        return orjson.dumps(body | dict(self.extra))
