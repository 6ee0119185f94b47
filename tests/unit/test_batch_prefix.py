"""The order of lines: what begins alike runs together."""

import random
from itertools import pairwise
from typing import Any

from gateway.batch.prefix import prefix_key


def chat(system: str, user: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}], **more}


def test_lines_with_the_same_system_prompt_stand_together() -> None:
    systems = [f"You are assistant {n}. " * 40 for n in range(5)]
    lines = [(n % 5, chat(systems[n % 5], f"question {n}")) for n in range(50)]
    random.Random(1).shuffle(lines)
    order = [group for group, _ in sorted(lines, key=lambda each: prefix_key(each[1]))]
    changes = sum(one != other for one, other in pairwise(order))
    assert changes == 4


def test_lines_that_share_more_stand_closer() -> None:
    system, document, other = "rules " * 100, "text " * 1000, "page " * 1000
    one, two, three = (
        prefix_key(chat(system, start + str(n))) for start, n in ((document, 1), (document, 2), (other, 3))
    )
    assert one[:8] == two[:8] == three[:8]
    assert one[:24] == two[:24] != three[:24]


def test_what_is_no_part_of_the_prompt_does_not_matter() -> None:
    assert prefix_key(chat("s", "u", temperature=1)) == prefix_key(chat("s", "u", model="m", seed=3))


def test_tools_stand_before_the_messages() -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "x" * 300}}]
    assert prefix_key(chat("one", "u", tools=tools))[:8] == prefix_key(chat("two", "u", tools=tools))[:8]


def test_every_kind_of_prompt_has_a_key() -> None:
    bodies: list[dict[str, Any]] = [
        {"prompt": "a"},
        {"prompt": [1, 2]},
        {"input": ["a", "b"]},
        {"instructions": "i", "input": "a"},
        {},
    ]
    assert len({prefix_key(body) for body in bodies}) == len(bodies)
