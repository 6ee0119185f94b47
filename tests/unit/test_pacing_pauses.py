"""When a line has to wait although there is room."""

from gateway.pacing.pauses import REST_S, Pauses


def after_a_line_of(seconds: float) -> Pauses:
    """Pauses at the end of a line, at time 0."""
    pauses = Pauses()
    pauses.began(-seconds)
    pauses.note(-seconds / 2, 1)
    pauses.note(0.0, 0)
    return pauses


def test_half_of_the_time_is_a_pause_as_long_as_the_line() -> None:
    pauses = after_a_line_of(2.0)
    assert pauses.resting(1.9, 0.5)
    assert not pauses.resting(2.0, 0.5)


def test_a_pause_after_a_long_line_has_an_end() -> None:
    pauses = after_a_line_of(600.0)
    assert pauses.resting(REST_S - 0.1, 0.125)
    assert not pauses.resting(REST_S, 0.125)


def test_a_whole_line_or_more_needs_no_pause() -> None:
    assert not after_a_line_of(2.0).resting(0.0, 1)


def test_a_pause_is_counted_from_the_end_and_not_at_each_look() -> None:
    pauses = after_a_line_of(1.0)
    pauses.note(0.9, 0)
    assert not pauses.resting(1.0, 0.5)
    assert pauses.idle_since == 0.0


def test_nothing_is_idle_while_a_line_runs() -> None:
    pauses = after_a_line_of(1.0)
    pauses.began(2.0)
    assert pauses.idle_since is None
    pauses.note(2.1, 1)
    assert pauses.idle_since is None
    assert not pauses.resting(2.1, 0.125)


def test_somebody_who_waits_is_let_go_first_for_a_while() -> None:
    pauses = Pauses()
    assert [pauses.holding(now, awaited=True, patience=0.2) for now in (0.0, 0.1, 0.2, 0.3)] == [
        True,
        True,
        False,
        False,
    ]
    pauses.began(0.3)
    assert pauses.holding(0.4, awaited=True, patience=0.2)
    assert not pauses.holding(0.5, awaited=False, patience=0.2)
    assert pauses.holding(0.7, awaited=True, patience=0.2)
