"""When the interactive lane counts as empty."""

from gateway.pacing.presence import MOST_S, QUIET_S, Presence


def after(gap: float, count: int = 8) -> tuple[Presence, float]:
    """A lane that got a request each `gap` seconds, and the time of the last one."""
    presence = Presence()
    for n in range(count):
        presence.take(n * gap, [n * gap], busy=True)
    return presence, (count - 1) * gap


def test_a_lane_that_nobody_has_used_is_empty() -> None:
    assert Presence().quiet(0.0)


def test_a_busy_lane_is_empty_after_some_seconds() -> None:
    presence, last = after(0.1)
    assert not presence.quiet(last + QUIET_S - 0.1)
    assert presence.quiet(last + QUIET_S)


def test_a_lane_with_few_requests_is_empty_after_a_gap_that_it_hardly_ever_has() -> None:
    presence, last = after(3.0)
    assert not presence.quiet(last + 29)
    assert presence.quiet(last + 30)


def test_a_lane_with_a_request_an_hour_is_empty_after_a_minute() -> None:
    presence, last = after(3600.0)
    assert not presence.quiet(last + MOST_S - 1)
    assert presence.quiet(last + MOST_S)


def test_a_request_that_goes_on_keeps_the_lane_in_use() -> None:
    presence, last = after(0.1)
    presence.take(last + 60, [], busy=True)
    assert not presence.quiet(last + 61)
