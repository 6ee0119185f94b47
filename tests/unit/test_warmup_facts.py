"""What is read of an engine before it is warmed."""

import json

import pytest

from gateway.warmup.facts import Served, read_served, read_started


def listing(*models: object) -> bytes:
    return json.dumps({"object": "list", "data": models}).encode()


def test_the_first_model_is_taken_or_the_one_that_is_named() -> None:
    body = listing({"id": "base", "max_model_len": 4096}, {"id": "adapter", "max_model_len": 2048})
    assert read_served(body) == Served("base", 4096)
    assert read_served(body, "adapter") == Served("adapter", 2048)


def test_a_model_that_is_named_is_asked_for_though_it_is_not_listed() -> None:
    assert read_served(listing({"id": "base", "max_model_len": 4096}), "other") == Served("other", None)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"data":3}', b'{"data":[1,{"id":2}]}', listing({"max_model_len": 5})]
)
def test_what_is_no_listing_says_nothing(body: bytes) -> None:
    assert read_served(body) == Served(None, None)


@pytest.mark.parametrize("length", [None, "4096", 0, -1])
def test_a_length_that_is_no_number_is_not_known(length: object) -> None:
    assert read_served(listing({"id": "m", "max_model_len": length})) == Served("m", None)


def test_the_start_of_a_process_is_read_as_vllm_writes_it() -> None:
    metrics = b"""# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79595945194e+09
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
"""
    assert read_started(metrics) == b"1.79595945194e+09"
    assert read_started(b'process_start_time_seconds{engine="0"} 17.5\n') == b"17.5"
    assert read_started(b"other_process_start_time_seconds 1\n") is None
