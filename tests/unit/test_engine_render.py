"""A profile as a command, variables, a compose service or a lane."""

import json
import shlex
import tomllib

import pytest

from app.cli import main
from app.engine.render import Launch, command, compose, env, gateway
from config.profiles import load, names
from config.settings import Settings


@pytest.mark.parametrize("name", names())
def test_a_shell_reads_the_command_as_the_profile_has_it(name: str) -> None:
    profile = load(name)
    launch = Launch(profile)
    words = shlex.split(command(launch).replace("\\\n", " "))
    assert words[words.index("serve") + 1 :] == launch.words()
    assert words[: words.index("vllm")] == [f"{k}={v}" for k, v in profile.variables().items()]


def test_model_and_cards_replace_the_profiles_own() -> None:
    words = Launch(load("single"), "/models/mine", 2).words()
    assert words[:3] == ["/models/mine", "--served-model-name", "mine"]
    assert words[words.index("--tensor-parallel-size") + 1] == "2"


def test_a_shell_reads_the_variables() -> None:
    launch = Launch(load("low-latency"))
    values = dict(line.split("=", 1) for line in env(launch).splitlines())
    (arguments,) = shlex.split(values["VLLM_ARGS"])
    assert shlex.split(arguments) == launch.words()[1:]


def test_a_compose_service_quotes_json_and_dollars() -> None:
    text = compose(Launch(load("low-latency"), extra=["--chat-template", "$x"]))
    words = [json.loads(line.strip()[2:]) for line in text.splitlines() if line.strip().startswith("- ")]
    assert words[0] == "openai/gpt-oss-20b"
    assert '{"temperature": 0.0, "top_p": 0.95}' in words
    assert "$$x" in words


@pytest.mark.parametrize("name", names())
def test_the_lane_of_a_profile_is_valid_settings(name: str) -> None:
    tree = tomllib.loads(gateway(Launch(load(name))))
    lane = load(name).lane.name
    other = {"batch", "lowlatency"} - {lane}
    if tree.get("topology") != "single":
        tree["lanes"] |= {key: {"engines": ["http://127.0.0.1:9"]} for key in other}
    assert Settings(**tree).slots_of(lane) == load(name).lane.slots


def test_the_profile_for_both_lanes_says_which_one_goes_first() -> None:
    tree = tomllib.loads(gateway(Launch(load("single"))))
    assert tree["topology"] == "single"
    assert [tree["lanes"][lane]["priority"] for lane in ("lowlatency", "batch")] == [0, 1]
    assert "priority" not in gateway(Launch(load("low-latency")))


def test_the_defaults_of_a_profiles_lane_are_shown_in_every_format_that_is_not_a_command() -> None:
    launch = Launch(load("low-latency"))
    given = {"temperature": 0.0, "top_p": 0.95}
    assert tomllib.loads(gateway(launch))["lanes"]["lowlatency"]["defaults"] == given
    for text in (env(launch), compose(launch)):
        comment = text.splitlines()[-1]
        assert comment.startswith("# ")
        _, _, value = comment.partition("TOKENLANE_LANES__LOWLATENCY__DEFAULTS=")
        assert json.loads(shlex.split(value)[0]) == given
    assert "DEFAULTS" not in env(Launch(load("batch"))) + compose(Launch(load("batch")))


def test_the_command_line_lists_renders_checks_and_advises(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "list"]) == 0
    assert main(["engine", "render", "batch", "--format", "compose"]) == 0
    assert main(["engine", "check", "batch", "--catalogue"]) == 0
    assert main(["engine", "check", "--catalogue", "--flags", "vllm serve m --swap-space 4"]) == 1
    assert main(["engine", "advise", "--gpu-memory", "24GiB,24GiB"]) == 0
    out = capsys.readouterr().out
    assert "vllm-batch:" in out
    assert "--kv-offloading-size" in out
    assert "advice: topology split" in out


def test_mistakes_end_with_one_and_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "render", "nothing"]) == 1
    assert main(["engine", "advise", "--gpu-memory", "a lot"]) == 1
    assert main(["engine", "advise", "--gpu-memory", "2GiB"]) == 1
    assert main(["engine", "check", "batch", "--vllm-python", "/nowhere/python"]) == 1
    assert main(["engine", "run", "cpu", "--vllm-python", "/nowhere/python"]) == 1
    err = capsys.readouterr().err
    assert err.count("tokenlane:") == 4
    assert "no profile nothing" in err
