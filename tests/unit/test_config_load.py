"""The sources: who wins, where a value came from, and what a mistake is called."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from config.load import Loaded, is_service_link, load
from config.problems import ConfigError
from config.settings import LaneSettings
from config.show import lines


class Sources:
    """Files in a folder of their own, and an environment that is a mapping."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gateway.toml"
        self.env_file = folder / ".env"
        self.file.write_text("")

    def load(self, environ: Mapping[str, str] | None = None, **overrides: str) -> Loaded:
        paths = {name.replace("__", "."): value for name, value in overrides.items()}
        return load(overrides=paths, environ=environ or {}, env_file=self.env_file, file=self.file)

    def problems(self, environ: Mapping[str, str] | None = None, **overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(environ, **overrides)
        return [problem.replace(str(self.file), "FILE") for problem in caught.value.problems]


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def test_each_source_is_stronger_than_the_one_below(sources: Sources) -> None:
    path = ("server", "port")
    seen = [(sources.load().settings.server.port, sources.load().origin(path))]
    sources.file.write_text("[server]\nport = 1\n")
    seen.append((sources.load().settings.server.port, sources.load().origin(path)))
    sources.env_file.write_text("TOKENLANE_SERVER__PORT=2\n")
    seen.append((sources.load().settings.server.port, sources.load().origin(path)))
    environ = {"TOKENLANE_SERVER__PORT": "3"}
    seen.append((sources.load(environ).settings.server.port, sources.load(environ).origin(path)))
    loaded = sources.load(environ, server__port="4")
    seen.append((loaded.settings.server.port, loaded.origin(path)))
    assert seen == [
        (8080, "default"),
        (1, str(sources.file)),
        (2, ".env TOKENLANE_SERVER__PORT"),
        (3, "environment TOKENLANE_SERVER__PORT"),
        (4, "command line"),
    ]


def test_sources_merge_key_by_key(sources: Sources) -> None:
    sources.file.write_text("[lanes.batch]\nqueue = 1\npatience_s = 2\n[lanes.batch.buffer]\ntokens = 8\n")
    loaded = sources.load({"TOKENLANE_LANES__BATCH__QUEUE": "3"}, lanes__batch__buffer__delay_ms="5")
    assert loaded.settings.lanes["batch"] == LaneSettings.model_validate(
        {"queue": 3, "patience_s": 2, "buffer": {"tokens": 8, "delay_ms": 5}}
    )
    assert loaded.settings.lanes["lowlatency"] == LaneSettings()


def test_variables_set_a_lane_without_wiping_the_rest(sources: Sources) -> None:
    loaded = sources.load(
        {
            "TOKENLANE_LANES__LOWLATENCY__ENGINES": '["http://127.0.0.1:8001"]',
            "TOKENLANE_LANES__LOWLATENCY__POOL_SIZE": "1024",
            "TOKENLANE_LANES__BATCH__ENGINES": "http://127.0.0.1:8002,http://127.0.0.1:8003",
        }
    )
    lane = loaded.settings.lanes["lowlatency"]
    assert ([engine.url for engine in lane.engines], lane.pool_size, lane.queue) == (
        ["http://127.0.0.1:8001"],
        1024,
        64,
    )
    assert loaded.settings.slots_of("batch") == 64
    assert loaded.origin(("lanes", "batch", "queue")) == "default"


def test_a_variable_for_a_part_is_stronger_than_one_for_the_whole(sources: Sources) -> None:
    environ = {"TOKENLANE_LANES__BATCH__QUEUE": "2", "TOKENLANE_LANES": '{"batch": {"queue": 1, "patience_s": 9}}'}
    batch = sources.load(environ).settings.lanes["batch"]
    assert (batch.queue, batch.patience_s) == (2, 9)


def test_a_new_lane_can_come_from_a_variable(sources: Sources) -> None:
    assert sources.load({"TOKENLANE_LANES__OVER_NIGHT__QUEUE": "5"}).settings.lanes["over_night"].queue == 5


def test_other_variables_and_empty_ones_are_left_alone(sources: Sources) -> None:
    sources.env_file.write_text("HF_TOKEN=x\nTOKENLANE_SERVER__PORT=\n")
    assert sources.load({"PATH": "/bin", "TOKENLANE_TOPOLOGY": ""}).settings.server.port == 8080


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ("TOKENLANE_SERVER_PORT", "is not a setting; did you mean TOKENLANE_SERVER__PORT?"),
        ("TOKENLANE_TOPOLGY", "is not a setting; did you mean TOKENLANE_TOPOLOGY?"),
        ("TOKENLANE_QUITE_ANOTHER", "is not a setting"),
        ("TOKENLANE_LANES__BATCH__QUEU", "lanes.batch.queu: is not a setting; did you mean lanes.batch.queue?"),
        ("TOKENLANE_TOPOLOGY__X", "is not a setting; did you mean TOKENLANE_TOPOLOGY?"),
    ],
)
def test_an_unknown_variable_is_an_error_that_names_it(sources: Sources, variable: str, problem: str) -> None:
    assert sources.problems({variable: "1"}) == [f"environment {variable}: {problem}"]


def test_an_unknown_line_of_the_env_file_is_an_error_too(sources: Sources) -> None:
    sources.env_file.write_text("TOKENLANE_PORT=1\n")
    [problem] = sources.problems()
    assert problem.startswith(".env TOKENLANE_PORT: is not a setting")


def test_an_unknown_key_of_the_file_is_an_error_that_names_file_and_key(sources: Sources) -> None:
    sources.file.write_text("[lanes.batch]\nqueu = 1\n[[lanes.lowlatency.engines]]\nurl = 'http://a'\nnam = 'x'\n")
    assert sources.problems() == [
        "FILE: lanes.lowlatency.engines.0.nam: is not a setting; did you mean name?",
        "FILE: lanes.batch.queu: is not a setting; did you mean lanes.batch.queue?",
    ]


def test_an_unknown_path_of_the_command_line_is_an_error(sources: Sources) -> None:
    assert sources.problems(server__prt="1") == [
        "command line: server.prt: is not a setting; did you mean server.port?"
    ]


def test_every_problem_is_told_at_once_and_with_its_own_source(sources: Sources) -> None:
    sources.file.write_text("topology = 'dual'\n")
    problems = sources.problems({"TOKENLANE_SERVER__PORT": "70000", "TOKENLANE_X": "1"}, lanes__batch__queue="-1")
    assert problems == [
        "environment TOKENLANE_X: is not a setting",
        "FILE: topology: must be 'split' or 'single'",
        "command line: lanes.batch.queue: must be greater than or equal to 0",
        "environment TOKENLANE_SERVER__PORT: server.port: must be less than or equal to 65535",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("TOKENLANE_LANES", "batch", "must be JSON"),
        ("TOKENLANE_SERVER", "1", "server: must be a table"),
        ("TOKENLANE_LANES__BATCH", "x", "lanes.batch: must be a table"),
        ("TOKENLANE_LANES__BATCH__ENGINES", "[x", "lanes.batch.engines: must be URLs with commas between, or JSON"),
        ("TOKENLANE_LANES__BATCH__ENGINES", '[{"name": "x"}]', "lanes.batch.engines.0.url: is missing"),
    ],
)
def test_a_value_of_the_wrong_shape_names_its_variable(
    sources: Sources, variable: str, value: str, problem: str
) -> None:
    assert sources.problems({variable: value}) == [f"environment {variable}: {problem}"]


def test_a_table_does_not_hide_that_a_weaker_source_gave_no_table(sources: Sources) -> None:
    sources.file.write_text("server = 1\n")
    [problem] = sources.problems({"TOKENLANE_SERVER__PORT": "1"})
    assert "server: must be a table" in problem


def test_a_file_that_was_named_has_to_be_there(sources: Sources) -> None:
    sources.file.unlink()
    assert sources.problems() == ["FILE: there is no such file"]


def test_the_default_file_need_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(environ={}).settings.server.port == 8080


def test_a_file_that_cannot_be_understood_is_named_with_the_line(sources: Sources) -> None:
    sources.file.write_text("[server]\nport = \n")
    [problem] = sources.problems()
    assert problem.startswith("FILE: is not valid TOML: ")
    assert "line 2" in problem


def test_no_problem_repeats_a_secret(sources: Sources) -> None:
    wrong = [
        {"url": "http://user:hunter2@a", "api_key": {"hunter2": 1}},
        {"url": 1, "api_key": "hunter2", "x": "hunter2"},
    ]
    problems = sources.problems({"TOKENLANE_LANES__BATCH__ENGINES": json.dumps(wrong)})
    assert len(problems) == 4
    assert "hunter2" not in "".join(problems)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENLANE_SERVICE_HOST", "10.0.0.1"),
        ("TOKENLANE_SERVICE_PORT", "8080"),
        ("TOKENLANE_SERVICE_PORT_HTTP", "8080"),
        ("TOKENLANE_PORT", "tcp://10.0.0.1:8080"),
        ("TOKENLANE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TOKENLANE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TOKENLANE_BATCH_PORT", "tcp://10.0.0.1:8080"),
    ],
)
def test_variables_of_a_kubernetes_service_called_tokenlane_do_no_harm(sources: Sources, name: str, value: str) -> None:
    assert is_service_link(name, value)
    assert sources.load({name: value}).settings.server.port == 8080


def test_a_slip_is_not_taken_for_such_a_variable() -> None:
    assert not is_service_link("TOKENLANE_SERVER_PORT", "8080")
    assert not is_service_link("TOKENLANE_SERVER__PORT", "8080")


def test_what_is_shown_has_every_setting_its_origin_and_no_secret(sources: Sources) -> None:
    engines = '[{"url": "http://a", "api_key": "hunter2"}]'
    loaded = sources.load(
        {"TOKENLANE_LANES__BATCH__ENGINES": engines, "TOKENLANE_TOPOLOGY": "single"},
        default_lane="batch",
        batch_lane="lowlatency",
    )
    shown = {line.split(" = ")[0]: line for line in lines(loaded)}
    assert shown["lanes.batch.engines"].endswith("# environment TOKENLANE_LANES__BATCH__ENGINES")
    assert '"api_key": "**********"' in shown["lanes.batch.engines"]
    assert shown["server.port"].split() == ["server.port", "=", "8080", "#", "default"]
    assert shown["default_lane"].split() == ["default_lane", "=", '"batch"', "#", "command", "line"]
    assert "hunter2" not in "".join(shown.values())
