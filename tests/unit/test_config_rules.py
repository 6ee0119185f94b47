"""Advice: what works but is likely not meant."""

from collections.abc import Mapping
from typing import Any

import pytest

from config.rules import advice
from config.settings import Settings

ENGINES: dict[str, Any] = {"lowlatency": {"engines": ["http://a:1"]}, "batch": {"engines": ["http://b:1"]}}


def tree(**values: object) -> Settings:
    return Settings.model_validate(values)


def engine(**more: object) -> dict[str, Any]:
    return ENGINES | {"batch": {"engines": [{"url": "http://b:1"} | more]}}


def test_an_ordinary_configuration_gets_no_advice() -> None:
    assert advice(tree(lanes=ENGINES)) == []


def test_simulated_engines_are_pointed_out() -> None:
    [line] = advice(Settings())
    assert "simulated engines answer" in line


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"lanes": ENGINES | {"batch": {"engines": ["http://b:1"], "slots": 33}}}, "lanes.batch.slots: 33 slots"),
        ({"lanes": engine(max_num_seqs=16)}, "lanes.batch.slots: 32 slots, but the engines run 16 sequences"),
        ({"lanes": ENGINES | {"batch": {"engines": ["http://a:1"]}}}, "lanes: an engine is listed twice"),
        ({"timeouts": {"keepalive_s": 5}}, "timeouts.keepalive_s: vLLM closes"),
        ({"server": {"keepalive_s": 60}}, "server.keepalive_s: nginx"),
        ({"timeouts": {"commit_after_s": 300}}, "timeouts.commit_after_s"),
        ({"timeouts": {"ping_s": 0}}, "timeouts.ping_s"),
        ({"timeouts": {"ping_s": 60}}, "timeouts.ping_s"),
        ({"server": {"shutdown_grace_s": 0}}, "server.shutdown_grace_s"),
        ({"limits": {"header_bytes": 65536, "head_bytes": 65535}}, "limits.header_bytes"),
        ({"limits": {"event_bytes": 1048577, "answer_bytes": 1048576}}, "limits.event_bytes"),
    ],
)
def test_what_is_likely_not_meant_is_named(values: Mapping[str, Any], line: str) -> None:
    [found] = advice(tree(**({"lanes": ENGINES} | dict(values))))
    assert found.startswith(line)


def test_sequences_are_compared_only_where_all_engines_tell_them() -> None:
    batch = {"engines": [{"url": "http://b:1", "max_num_seqs": 1}, "http://b:2"]}
    assert advice(tree(lanes=ENGINES | {"batch": batch})) == []


def test_the_server_gives_up_later_than_the_grace_ends() -> None:
    server = tree(server={"shutdown_grace_s": 7}).server
    assert server.stop_timeout_s > server.shutdown_grace_s


def test_a_server_that_needs_keys_may_be_reached_by_other_machines() -> None:
    assert Settings(server={"host": "0.0.0.0"}, keys={"required": True}).keys.required
