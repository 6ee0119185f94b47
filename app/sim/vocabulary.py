"""Tokens: their ids, their text, and the prose that the simulator speaks.

A word of the prose has a small id. Any other piece of text is at most six bytes long and its id holds those bytes
behind a leading 1, so that every id below 2^53 can be turned back into text without a table.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

_PIECE = re.compile(r" ?[A-Za-z0-9_]{1,5}| ?\w|\s|[^\w\s]")
_FIRST_WORD = 1000
_FIRST_SMALL = 100
"""From here on every small id has a text, as in a real vocabulary: a number, where nothing else has that id."""
END_TEXT = "<|im_end|>"
END_ID = 2


class Kind(Enum):
    """Where the text of a token belongs."""

    CONTENT = 1
    REASONING = 2
    CALL_NAME = 3
    CALL_ARGUMENTS = 4
    HIDDEN = 5  # syntax of thoughts and calls, and parts of characters: an id and no text
    END = 6


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Args:
        id: what `token_ids` shows.
        text: what it adds to the answer; empty for HIDDEN and END.
        kind: where the text belongs.
        shown: what logprobs show; a part of a character shows nothing.
        call: index of the tool call it belongs to.
    """

    id: int
    text: str
    kind: Kind = Kind.CONTENT
    shown: str = ""
    call: int = 0


_OPENING = "This is tokenlane's simulated engine."
_SENTENCES = (
    "It answers at a set pace and knows nothing.",
    "Every word arrives on its own, like rain on a quiet roof.",
    "The café by the river opens at seven, naïve and cheerful as ever.",
    "A queue is only fair when somebody counts it.",
    "“Measure twice,” she said, “and stream once.”",
    "你好世界。今天很安静。",
    "こんにちは 🙂 the lamp is on.",
    "Two lanes meet here: one is quick, the other is patient.",
    "Sparks ✨ and tea 🍵 at the end of the day.",
    "Nothing is lost between the engine and you.",
    "A path such as C:\\temp\\notes is only text.",
    'He wrote {"ok": true} on the wall and left.',
    "Größe, façade, piñata, smörgåsbord: accents survive.",
    "Tokens go by, one after another, and none of them looks back.",
    "The tide turns when it must.",
    "\nA new line begins here.\n",
    "- first, listen\n- then, answer\n",
    "Short words are kind to slow links.",
    "Ω and π are letters as well.",
    "Ask again and you will hear the same.",
)
_WORD = re.compile(r"\s?[A-Za-zÀ-ÿ']+|\s?[^\sA-Za-zÀ-ÿ']|\s")


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


_TEXTS = list(dict.fromkeys(word for line in (_OPENING, *(f" {line}" for line in _SENTENCES)) for word in _words(line)))
_IDS = {text: _FIRST_WORD + i for i, text in enumerate(_TEXTS)}


def _line(text: str, kind: Kind) -> tuple[Token, ...]:
    return tuple(Token(_IDS[word], word, kind, word) for word in _words(text))


def _prose(kind: Kind) -> tuple[tuple[Token, ...], tuple[tuple[Token, ...], ...]]:
    return _line(_OPENING, kind), tuple(_line(f" {sentence}", kind) for sentence in _SENTENCES)


PROSE = {kind: _prose(kind) for kind in (Kind.CONTENT, Kind.REASONING)}
END = Token(END_ID, "", Kind.END, END_TEXT)
THINK = Token(3, "", Kind.HIDDEN, "<think>")
THINK_OVER = Token(4, "", Kind.HIDDEN, "</think>")
CALL = Token(5, "", Kind.HIDDEN, "<tool_call>")
CALL_OVER = Token(6, "", Kind.HIDDEN, "</tool_call>")
_SPECIAL = {token.id: token.shown for token in (END, THINK, THINK_OVER, CALL, CALL_OVER)}


def packed(text: str) -> int:
    """The id of a piece of at most six UTF-8 bytes."""
    return int.from_bytes(b"\x01" + text.encode("utf-8", "replace"), "big")


def pieces(text: str) -> list[str]:
    """Text cut into pieces of at most six bytes: a short word, or about five characters, is a token."""
    return _PIECE.findall(text)


@lru_cache(maxsize=256)
def encode(text: str) -> tuple[int, ...]:
    """The ids of a prompt."""
    return tuple(packed(piece) for piece in pieces(text))


def decode(token_id: int) -> str | None:
    """The text of an id, or None where the id is not in the vocabulary."""
    if token_id in _SPECIAL:
        return _SPECIAL[token_id]
    if _FIRST_WORD <= token_id < _FIRST_WORD + len(_TEXTS):
        return _TEXTS[token_id - _FIRST_WORD]
    raw = token_id.to_bytes(8, "big").lstrip(b"\0") if 0 <= token_id < 1 << 56 else b""
    if not raw.startswith(b"\x01") or len(raw) == 1:
        return f" {token_id}" if _FIRST_SMALL <= token_id < _FIRST_WORD else None
    return raw[1:].decode("utf-8", "replace")


def spelled(text: str, kind: Kind, call: int = 0) -> list[Token]:
    """Text as tokens of one kind."""
    return [Token(packed(piece), piece, kind, piece, call) for piece in pieces(text)]


def broken(character: str) -> list[Token]:
    """A character as two tokens: the first holds a part of its bytes and has no text, the second completes it."""
    code = character.encode()
    first = int.from_bytes(b"\x01" + code[:-1], "big")
    return [Token(first, "", Kind.HIDDEN, ""), Token(packed(character), character, Kind.CONTENT, character)]
