"""What is shown of batches."""

from gateway.batch.census import Census, figures
from gateway.batch.jobs import Status


def test_every_open_status_has_a_number_and_no_other_has() -> None:
    seen = figures(Census({Status.IN_PROGRESS: 2}, lines=70), running=8, pace=9, ceiling=32)
    assert seen.open == {"validating": 0, "in_progress": 2, "finalizing": 0, "cancelling": 0}
    assert (seen.running, seen.waiting, seen.pace, seen.ceiling) == (8, 62, 9, 32)


def test_what_was_counted_before_lines_ended_is_never_negative() -> None:
    assert figures(Census({}, lines=3), running=5, pace=9, ceiling=32).waiting == 0


def test_without_a_database_only_what_runs_here_is_known() -> None:
    seen = figures(None, running=5, pace=9, ceiling=32)
    assert (seen.running, seen.waiting, seen.open) == (5, None, {})
