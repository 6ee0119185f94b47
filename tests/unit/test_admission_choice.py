"""Which lane a request belongs to."""

from collections.abc import Collection

import pytest

from gateway.admission.choice import LaneChoice, LaneNames, choose_lane
from gateway.errors import InvalidRequest, LaneForbidden

LANES = LaneNames(names=("lowlatency", "batch", "night"), interactive="lowlatency", batch="batch")


def choose(
    *,
    header: str | None = None,
    tier: object = None,
    model: str | None = "gpt-oss-20b",
    default: str = "lowlatency",
    ceiling: Collection[str] | None = None,
) -> LaneChoice:
    return choose_lane(LANES, header=header, service_tier=tier, model=model, default=default, ceiling=ceiling)


def test_a_request_that_says_nothing_goes_to_the_default_unchanged() -> None:
    assert choose(default="batch") == LaneChoice("batch", "gpt-oss-20b", None, strip_tier=False)


def test_the_header_beats_the_tier_which_beats_the_suffix_which_beats_the_default() -> None:
    suffix = "gpt-oss-20b:night"
    assert choose(model=suffix, default="batch").lane == "night"
    assert choose(tier="flex", model=suffix).lane == "batch"
    assert choose(header="lowlatency", tier="flex", model=suffix).lane == "lowlatency"


@pytest.mark.parametrize(
    ("tier", "lane", "stated"),
    [
        ("priority", "lowlatency", "priority"),
        ("scale", "lowlatency", "priority"),
        ("default", "lowlatency", "default"),
        ("auto", "lowlatency", "default"),
        ("flex", "batch", "flex"),
    ],
)
def test_a_service_tier_chooses_the_lane_and_the_answer_states_the_tier_used(tier: str, lane: str, stated: str) -> None:
    choice = choose(tier=tier, default="night")
    assert (choice.lane, choice.tier, choice.strip_tier) == (lane, stated, True)


def test_the_answer_states_the_tier_of_the_lane_that_served_not_the_one_asked_for() -> None:
    assert choose(header="batch", tier="priority").tier == "flex"
    assert choose(header="lowlatency", tier="flex").tier == "default"
    assert choose(header="night", tier="priority").tier == "default"


@pytest.mark.parametrize("tier", ["turbo", "", "Flex", 1, True, ["flex"], {"tier": "flex"}])
def test_an_unknown_tier_is_refused_by_name_even_where_the_header_decides(tier: object) -> None:
    with pytest.raises(InvalidRequest, match="flex") as caught:
        choose(header="batch", tier=tier)
    assert caught.value.param == "service_tier"


def test_an_unknown_lane_in_the_header_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InvalidRequest, match="lowlatency, batch, night") as caught:
        choose(header="fast")
    assert caught.value.param == "X-Tokenlane-Lane"


def test_spaces_around_the_header_do_not_matter_and_an_empty_one_says_nothing() -> None:
    assert choose(header=" batch ").lane == "batch"
    assert choose(header=" ", tier="flex").lane == "batch"


def test_a_suffix_leaves_the_model_also_where_the_header_decides() -> None:
    choice = choose(header="lowlatency", model="gpt-oss-20b:batch")
    assert (choice.lane, choice.model) == ("lowlatency", "gpt-oss-20b")


@pytest.mark.parametrize("model", ["llama:8b", "batch", ":batch", "a:batch:8b", "", None])
def test_a_colon_that_no_lane_follows_is_part_of_the_name(model: str | None) -> None:
    choice = choose(model=model)
    assert (choice.lane, choice.model) == ("lowlatency", model)


def test_only_the_last_suffix_of_a_name_with_colons_is_the_lane() -> None:
    choice = choose(model="llama:8b:batch")
    assert (choice.lane, choice.model) == ("batch", "llama:8b")


def test_a_key_gets_no_lane_that_it_names_and_may_not_use() -> None:
    for ask in ({"header": "lowlatency"}, {"model": "gpt-oss-20b:lowlatency"}, {"header": "night", "tier": "flex"}):
        with pytest.raises(LaneForbidden, match="may not use the lane"):
            choose(**ask, ceiling={"batch"})


def test_a_tier_is_a_wish_that_a_key_gets_as_far_as_it_may() -> None:
    assert choose(tier="priority", ceiling={"batch"}) == LaneChoice("batch", "gpt-oss-20b", "flex", strip_tier=True)
    assert choose(tier="flex", model="gpt-oss-20b:batch", ceiling={"night"}).lane == "night"


def test_a_key_without_the_lane_wished_for_gets_the_default_before_the_others() -> None:
    assert choose(tier="priority", default="night", ceiling=["batch", "night"]).lane == "night"
    assert choose(default="lowlatency", ceiling=["night", "batch"]).lane == "batch"


def test_a_ceiling_does_not_move_a_request_that_is_below_it() -> None:
    assert choose(header="night", default="batch", ceiling=["batch", "night"]).lane == "night"


def test_a_key_that_may_use_no_lane_is_told_so() -> None:
    with pytest.raises(LaneForbidden, match="none of the lanes"):
        choose(ceiling=["retired"])
