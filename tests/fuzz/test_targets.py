"""The fuzz targets for as long as a test may take: `make fuzz` goes on for longer. Cases H14, H15, H16, H17, H25, H26."""

from itertools import islice

import pytest

from tests.fuzz.inputs import case, cases
from tests.fuzz.normal import normal
from tests.fuzz.targets import TARGETS
from tests.traces.script import chunk, content, finish

STREAMS = 500


@pytest.mark.parametrize("target", TARGETS)
def test_no_damaged_recording_breaks_a_target(target: str) -> None:
    for one in islice(cases("tests"), STREAMS):
        TARGETS[target](one)


def test_the_case_of_a_name_is_always_the_same() -> None:
    assert all(case(f"same.{n}").pieces == case(f"same.{n}").pieces for n in range(50))


def test_the_normal_form_tells_what_may_be_merged_from_what_may_not() -> None:
    def form(*events: bytes) -> object:
        return normal((event, b"") for event in events)

    assert form(content("a"), content("b")) == form(content("ab"))
    assert form(content("a"), content("b", 1), content("c")) == form(content("ac"), content("b", 1))
    assert form(content("a"), content("b")) != form(content("a"))
    assert form(content("a"), content("b")) != form(content("b"), content("a"))
    assert form(content("a"), finish(), content("b")) != form(content("ab"), finish())
    assert form(content("a"), chunk({"reasoning": "b"})) != form(content("ab"))
    assert form(content("a", token_ids=[1]), content("b", token_ids=[2])) == form(content("ab", token_ids=[1, 2]))
    assert form(content("a", token_ids=[1]), content("b")) != form(content("ab", token_ids=[1]))
