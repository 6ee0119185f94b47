"""What the proof of batches decides: what is wrong with results, and how a batch got on."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.proof.measure import Asked
from benchmarks.proof.offline import custom_ids, input_file, judge
from benchmarks.proof.process import ProcessFailed, running
from benchmarks.proof.tables import markdown
from benchmarks.proof.watch import Look, longest_rest, progress


def batch(completed: int, failed: int = 0) -> dict[str, Any]:
    return {"request_counts": {"total": completed + failed, "completed": completed, "failed": failed}}


def result(name: str, result_id: str = "r", status: int = 200) -> dict[str, Any]:
    return {"id": result_id, "custom_id": name, "response": {"status_code": status}}


def test_lines_are_what_the_batch_api_takes_and_all_differ() -> None:
    rows = [json.loads(line) for line in input_file(Asked("m", "chat", (16,), 8), 3).splitlines()]
    assert [row["custom_id"] for row in rows] == custom_ids(3)
    assert rows[0]["body"]["max_tokens"] == 8
    assert "stream" not in rows[0]["body"]
    assert len({row["body"]["messages"][0]["content"] for row in rows}) == 3


def test_one_good_result_for_each_line_is_well() -> None:
    results = [result(name) for name in custom_ids(3)]
    assert judge(batch(3), results, 3, {"line-00001": "r"}).problems == []


def test_results_that_miss_or_come_twice_or_are_bad_or_changed_are_told() -> None:
    results = [result("line-00000"), result("line-00000"), result("line-00001", "new", 500), result("who")]
    verdict = judge(batch(2, 1), results, 3, {"line-00001": "old"})
    assert verdict.missing == {"line-00002"}
    assert verdict.twice == {"line-00000", "who"}
    assert verdict.bad == verdict.changed == {"line-00001"}
    assert len(verdict.problems) == 5


def test_a_line_without_an_answer_is_bad() -> None:
    results = [{"id": "r", "custom_id": "line-00000", "response": None}]
    assert judge(batch(1), results, 1, {}).bad == {"line-00000"}


def test_the_longest_rest_is_between_two_lines_or_up_to_the_last_look() -> None:
    looks = [Look(0, 0), Look(1, 1), Look(2, 1), Look(3, 2), Look(4, 5), Look(4.5, 5)]
    assert longest_rest(looks) == 2
    assert longest_rest([*looks, Look(9, 5)]) == 5
    assert longest_rest(looks[:1]) is None


def test_progress_is_that_between_two_moments() -> None:
    looks = [Look(0, 0, 1), Look(1, 4, 2), Look(2, 8), Look(3, 12, 4), Look(4, 99, 9)]
    told = progress(looks, 1, 3)
    assert (told["lines"], told["lines_per_s"], told["pace_p50"], told["pace_most"]) == (8, 4, 3, 4)


def test_a_process_can_be_killed_itself_and_has_ended_then(tmp_path: Path) -> None:
    with running("s", ["sleep", "60"], log=tmp_path / "log") as process:
        end = time.monotonic() + 10
        while True:
            try:
                process.end(signal.SIGKILL, 10)
            except ProcessFailed:  # it has not begun yet
                assert time.monotonic() < end
            else:
                break
        with pytest.raises(ProcessFailed, match="ended already"):
            process.end(signal.SIGKILL, 10)


def test_the_tables_of_a_batch_tell_ratio_progress_and_what_ran_again() -> None:
    spread = {"p50": 100.0, "p95": 130.0}
    chat = {"ttft_ms": spread, "tpot_ms": spread, "errors": {}}
    work = {"lines": 12, "lines_per_s": 3.0, "longest_rest_s": None, "pace_p50": None, "pace_most": None}
    restart = {
        "how": "killed",
        "lines": 12,
        "results": 12,
        "wrong": [],
        "recorded_before": 4,
        "changed": 0,
        "ran_again": 1.0,
        "may_run_again": 3.0,
        "seconds": {"to the next line": 2.5},
    }
    entries = [{"who": "both", "chat": chat, "batch": work, "p95_ratio": 1.2}]
    told = markdown({"batch": entries, "restarts": [restart]})
    assert "| both | 100 / 130 | 1.20 | 100 | 12 | 3.00 | - | 0 / 0 | none |" in told
    assert "| killed | 12 | 12 | none | 4 / 0 | 1 of 3 | to the next line 2.50 |" in told
