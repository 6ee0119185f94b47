"""How a request ended: what is counted, and the status."""

import pytest

from gateway.ending import outcome, status
from gateway.errors import ClientGone, EngineAnswered, EngineBroke, InvalidRequest, LaneFull
from gateway.telemetry import Outcome

ENDINGS = [
    (None, Outcome.OK, 200),
    (InvalidRequest("x"), Outcome.CLIENT_ERROR, 400),
    (EngineAnswered(404, b"{}"), Outcome.CLIENT_ERROR, 404),
    (EngineAnswered(500, b"{}"), Outcome.ENGINE_ERROR, 500),
    (EngineBroke("x"), Outcome.ENGINE_ERROR, 502),
    (LaneFull("x", retry_after=1), Outcome.REFUSED, 429),
    (ClientGone("x"), Outcome.CLIENT_GONE, 499),
    (ZeroDivisionError(), Outcome.INTERNAL, 500),
]


@pytest.mark.parametrize(("error", "counted", "answered"), ENDINGS)
def test_each_way_to_end_is_counted_as_one_outcome_with_the_status_that_its_client_got(
    error: BaseException | None, counted: Outcome, answered: int
) -> None:
    assert outcome(error) is counted
    assert status(error, committed=False) == answered


@pytest.mark.parametrize(("error", "counted", "answered"), ENDINGS)
def test_a_status_that_went_out_stays_but_a_client_that_left_is_told_apart(
    error: BaseException | None, counted: Outcome, answered: int
) -> None:
    assert status(error, committed=True) == (499 if counted is Outcome.CLIENT_GONE else 200)
