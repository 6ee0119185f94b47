"""When an engine is taken out of service, and what brings it back."""

import pytest

from gateway import errors as e
from gateway.routing.breaker import LONGEST_PAUSE, Breaker, BreakerState, EngineOutcome, outcome_of

SUCCESS, FAILURE = EngineOutcome.SUCCESS, EngineOutcome.FAILURE
UNREACHABLE, NEUTRAL = EngineOutcome.UNREACHABLE, EngineOutcome.NEUTRAL


def after(*outcomes: EngineOutcome, breaker: Breaker | None = None) -> Breaker:
    """A breaker that took these, 10 s apart."""
    breaker = breaker or Breaker()
    for at, outcome in enumerate(outcomes):
        breaker.record(outcome, at * 10.0)
    return breaker


def test_failures_in_a_row_open_it() -> None:
    assert after(FAILURE, FAILURE).closed
    assert after(FAILURE, FAILURE, FAILURE).state is BreakerState.OPEN
    assert after(FAILURE, breaker=Breaker(threshold=1)).state is BreakerState.OPEN


def test_one_5xx_among_good_answers_never_opens_it() -> None:
    """Case H30: a malformed answer of the model is an engine's failure, but a single one."""
    assert after(*(FAILURE, FAILURE, SUCCESS) * 20).closed


def test_neutral_outcomes_neither_open_it_nor_forgive_failures() -> None:
    """Case H5 and case H6: fifty mistakes of clients, forty busy answers."""
    assert after(*[NEUTRAL] * 90).closed
    assert not after(FAILURE, NEUTRAL, FAILURE, NEUTRAL, FAILURE).closed


def test_an_engine_that_cannot_be_reached_is_out_at_once() -> None:
    breaker = after(UNREACHABLE)
    assert not breaker.closed
    assert breaker.reason == "unreachable"


def test_one_refused_connection_while_the_engine_answers_others_counts_as_one_failure() -> None:
    breaker = Breaker()
    breaker.record(SUCCESS, 10.0)
    breaker.record(UNREACHABLE, 11.0)
    assert breaker.closed
    breaker.record(UNREACHABLE, 12.1)
    assert not breaker.closed


def test_only_a_real_generation_closes_it() -> None:
    """Case H4: late answers to earlier requests, and time, do not."""
    breaker = after(UNREACHABLE, SUCCESS, SUCCESS, NEUTRAL)
    assert not breaker.closed
    breaker.probe_succeeded(100.0)
    assert breaker.closed


def test_an_unproven_engine_is_not_asked_before_it_has_generated() -> None:
    breaker = Breaker(unproven=True)
    breaker.record(SUCCESS, 1.0)
    assert breaker.state is BreakerState.UNPROVEN
    assert breaker.probe_at(5.0) == 5.0
    breaker.probe_failed(5.0)
    assert breaker.probe_at(5.0) == 6.0
    breaker.probe_succeeded(6.0)
    assert breaker.closed
    assert breaker.probe_at(6.0) is None


def test_probes_back_off_from_one_second_to_thirty_and_start_anew_after_a_recovery() -> None:
    breaker = after(UNREACHABLE)
    now, pauses = 0.0, []
    for _ in range(7):
        due = breaker.probe_at(now)
        assert due is not None
        pauses.append(due - now)
        now = due
        breaker.probe_failed(now)
    assert pauses == [1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE]
    breaker.probe_succeeded(now)
    breaker.record(UNREACHABLE, now + 60)
    assert breaker.probe_at(now + 60) == now + 61


def test_a_probe_that_is_overdue_is_due_now() -> None:
    assert after(UNREACHABLE).probe_at(50.0) == 50.0


def test_failures_of_before_the_outage_are_not_held_against_the_engine_that_came_back() -> None:
    breaker = Breaker()
    epoch = breaker.epoch
    breaker.record(UNREACHABLE, 0.0, epoch=epoch)
    breaker.probe_succeeded(5.0)
    for _ in range(32):
        breaker.record(FAILURE, 60.0, epoch=epoch)
    assert breaker.closed


def test_an_engine_that_came_back_has_a_clean_record() -> None:
    breaker = after(FAILURE, FAILURE, FAILURE)
    breaker.probe_succeeded(25.0)
    assert after(FAILURE, FAILURE, breaker=breaker).closed


def test_it_says_its_state_and_why() -> None:
    assert repr(after(FAILURE, FAILURE, FAILURE)) == "<Breaker open: 3 failures in a row>"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, SUCCESS),
        *[(e.EngineAnswered(status, b""), NEUTRAL) for status in (400, 401, 404, 413, 422, 429, 501, 503)],
        *[(e.EngineAnswered(status, b""), FAILURE) for status in (500, 502, 504)],
        (e.EngineUnreachable(), UNREACHABLE),
        (e.EngineStale(), NEUTRAL),
        *[(kind(), FAILURE) for kind in (e.EngineBroke, e.EngineTruncated, e.EngineSilent, e.EngineStalled)],
        (e.ClientGone(), NEUTRAL),
        (e.ClientTooSlow(), NEUTRAL),
        (e.LaneFull("", retry_after=1), NEUTRAL),
        (KeyboardInterrupt(), NEUTRAL),
    ],
    ids=repr,
)
def test_what_the_end_of_a_request_says_of_its_engine(error: BaseException | None, outcome: EngineOutcome) -> None:
    """Case H5 (client mistakes) and case H6 (busy answers) are neutral; so is a client that left (case H2)."""
    assert outcome_of(error) is outcome
