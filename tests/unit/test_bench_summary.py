"""Many outcomes as one cell, by hand."""

from app.bench.load import Load
from app.bench.outcome import Outcome
from app.bench.result import rounded
from app.bench.summary import Record, cell

USERS = Load(2, None, 3)


def good(ttft: float = 0.1, gaps: tuple[float, ...] = (0.01, 0.03), tokens: int = 5, **more: object) -> Outcome:
    known = {"by_usage": True, "began": 0, "ended": 1, "events": 5, "prompt_tokens": 70, "prompt": 64, **more}
    return Outcome("ok", ttft=ttft, gaps=gaps, span=sum(gaps), tokens=tokens, **known)  # type: ignore[arg-type]


def test_rates_count_what_ended_well_over_the_whole_time() -> None:
    bad = Outcome("cut", tokens=100, events=90)
    found = cell(Record(USERS, [good(), good(), bad], seconds=4, cpu=1))
    assert (found["requests"], found["ok"], found["requests_per_s"]) == (3, 2, 0.5)
    assert (found["tokens_per_s"], found["events_per_s"]) == (2.5, 2.5)
    assert found["client"]["cpu_share"] == 0.25
    assert found["client"]["cpu_us_per_event"] == 10_000


def test_times_are_in_milliseconds_and_tpot_is_by_tokens_where_itl_is_by_events() -> None:
    found = cell(Record(USERS, [good()], seconds=1))
    assert found["ttft_ms"] is not None
    assert found["itl_ms"] is not None
    assert found["tpot_ms"] is not None
    assert found["total_ms"] is not None
    assert (found["ttft_ms"]["p50"], found["itl_ms"]["p50"], found["itl_ms"]["n"]) == (100, 20, 2)
    assert found["tpot_ms"]["p50"] == 10  # 40 ms for the four tokens after the first one
    assert found["total_ms"]["p50"] == 1000
    assert found["tokens_per_event"] == 1.6667


def test_an_answer_of_one_token_has_no_tpot() -> None:
    assert cell(Record(USERS, [good(gaps=(), tokens=1)], seconds=1))["tpot_ms"] is None


def test_errors_are_counted_by_kind_with_the_words_of_the_first() -> None:
    bad = [Outcome("http 429", retry_after=1, detail="first"), Outcome("connect"), Outcome("http 429", detail="second")]
    found = cell(Record(USERS, bad, seconds=1))
    assert found["errors"] == {"http 429": 2, "connect": 1}
    assert found["details"] == {"http 429": "first"}
    assert (found["refusals_with_retry_after"], found["ttft_ms"], found["tokens_by_usage"]) == (1, None, False)


def test_retries_and_waits_are_summed() -> None:
    found = cell(Record(USERS, [good(tries=3, waited=2.5), good()], seconds=1))
    assert (found["retries"], found["waited_s"]) == (2, 2.5)


def test_a_warm_up_is_in_no_figure() -> None:
    found = cell(Record(USERS, [good()], [good(ttft=9), Outcome("cut")], seconds=1))
    assert (found["warmup"], found["warmup_errors"], found["requests"]) == (2, 1, 1)
    assert found["ttft_ms"] is not None
    assert found["ttft_ms"]["max"] == 100


def test_first_tokens_are_told_for_each_length_of_prompt() -> None:
    found = cell(Record(USERS, [good(prompt=512, ttft=0.5), good(prompt=64, ttft=0.1)], seconds=1))
    assert {length: told["p50"] for length, told in found["ttft_ms_by_prompt"].items()} == {"64": 100, "512": 500}


def test_a_cell_that_measured_nothing_is_a_cell_all_the_same() -> None:
    found = cell(Record(Load(rate=2, requests=1), interrupted=True))
    assert (found["load"], found["interrupted"], found["requests_per_s"], found["tokens_per_event"]) == (
        "2/s",
        True,
        0,
        None,
    )


def test_only_an_open_loop_can_send_late() -> None:
    assert cell(Record(USERS, [good(late=1)], seconds=1))["client"]["late_ms"] is None
    late = cell(Record(Load(rate=2, requests=1), [good(late=0.002)], seconds=1))["client"]["late_ms"]
    assert late is not None
    assert late["max"] == 2


def test_figures_have_five_digits() -> None:
    assert [rounded(value) for value in (0.0, 123456.789, 0.00123456, -9.87654321)] == [0, 123460, 0.0012346, -9.8765]
