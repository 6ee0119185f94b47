"""A command line of `vllm serve`, cut into its options; pure."""

import re
import shlex
from collections.abc import Sequence

NEGATIVE = re.compile(r"-\d+(\.\d+)?")
LEVEL = re.compile(r"-O(=?)(.+)")


def words_of(text: str) -> list[str]:
    """The words after `vllm serve`, as a shell would cut them, without the command and the model.

    Raises:
        ValueError: a quotation is not closed.
    """
    words = shlex.split(text.replace("\\\n", " "))
    for at, word in enumerate(words):
        if _is_option(word):
            return words[at:]
    return []


def options_of(words: Sequence[str]) -> list[list[str]]:
    """Each option with the values that follow it."""
    options: list[list[str]] = []
    for word in words:
        if _is_option(word):
            options.append([word])
        elif options:
            options[-1].append(word)
    return options


def spelt(option: Sequence[str]) -> tuple[str, list[str]]:
    """An option's name as argparse looks it up, and its values.

    As vLLM does it: `_` becomes `-` before the first dot, `--name=value` is cut, `-O3` is `--optimization-level 3`,
    `--json.key value` belongs to `--json`.
    """
    word, values = option[0], list(option[1:])
    if not word.startswith("--"):
        if level := LEVEL.fullmatch(word):
            return "--optimization-level", [level[2], *values]
        name, dot, _ = word.partition(".")
        return ("--optimization-level" if name == "-O" and not dot else name), values
    name, sign, value = word.partition("=")
    name = name.partition(".")[0].replace("_", "-")
    return name, [value, *values] if sign else values


def has_key(option: Sequence[str]) -> bool:
    """Whether it names a key of a JSON option: `--json.key value`."""
    return "." in option[0].partition("=")[0] and not LEVEL.fullmatch(option[0])


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and NEGATIVE.fullmatch(word) is None
