"""The tree itself: built from values, it reads nothing."""

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from config.lanes import EngineSettings
from config.rules import is_loopback
from config.settings import LaneSettings, Settings

UNITS = r"(?i)\b(milliseconds|seconds|bytes|tokens?|connections?|requests?|slots?|sequences|port|failures)\b"


def fields(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every field of the tree, the engines' and lanes' too."""
    for name, field in model.model_fields.items():
        yield above + name, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, f"{above}{name}.")
    if model is Settings:
        yield from fields(LaneSettings, "lanes.*.")
        yield from fields(EngineSettings, "lanes.*.engines.*.")


ALL_FIELDS = dict(fields(Settings))


def is_number(field: FieldInfo) -> bool:
    return field.annotation in (int, float, int | None, float | None)


def tree(**values: object) -> Settings:
    return Settings.model_validate(values)


def messages(**values: object) -> str:
    with pytest.raises(ValidationError) as caught:
        tree(**values)
    return str(caught.value)


def split(**lanes: object) -> Settings:
    engines = {"lowlatency": {"engines": ["http://a:1"]}, "batch": {"engines": ["http://b:1"]}}
    return tree(lanes=engines | lanes)


def test_the_tree_was_walked_to_its_leaves() -> None:
    assert {"server.port", "lanes.*.buffer.tokens", "lanes.*.engines.*.url", "limits.body_bytes"} <= ALL_FIELDS.keys()


@pytest.mark.parametrize("path", ALL_FIELDS)
def test_every_setting_says_what_it_is_for(path: str) -> None:
    description = ALL_FIELDS[path].description
    assert description
    assert description.endswith(".")


@pytest.mark.parametrize("path", [path for path, field in ALL_FIELDS.items() if is_number(field)])
def test_every_number_has_a_unit_and_two_bounds(path: str) -> None:
    field = ALL_FIELDS[path]
    bounds = {name for item in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(item, name)}
    assert bounds & {"ge", "gt"}
    assert bounds & {"le", "lt"}
    assert re.search(UNITS, field.description or "")


@pytest.mark.parametrize("path", [p for p in ALL_FIELDS if re.search(r"_(s|ms|bytes)$", p)])
def test_the_unit_in_a_name_is_the_unit_in_its_description(path: str) -> None:
    unit = {"s": "seconds", "ms": "milliseconds", "bytes": "bytes"}[path.rsplit("_", 1)[1]]
    assert unit in (ALL_FIELDS[path].description or "").lower()


def test_the_defaults_are_two_lanes_without_engines_that_differ_in_patience_alone() -> None:
    settings = Settings()
    assert list(settings.lanes) == ["lowlatency", "batch"]
    assert settings.lanes["lowlatency"] == LaneSettings()
    assert settings.lanes["batch"] == LaneSettings(patience_s=600)
    assert settings.embedded


def test_building_the_tree_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLANE_SERVER__PORT", "9")
    assert Settings().server.port == 8080


def test_the_tree_is_frozen() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.server.port = 1
    with pytest.raises(ValidationError):
        settings.topology = "single"


@pytest.mark.parametrize("where", ["server", "timeouts", "limits", "health", "sim", "single"])
def test_an_unknown_key_is_refused_everywhere(where: str) -> None:
    assert "Extra inputs" in messages(**{where: {"unheard_of": 1}})


def test_a_lane_that_is_given_in_part_keeps_its_other_defaults() -> None:
    settings = tree(lanes={"batch": {"queue": 3}})
    assert settings.lanes["batch"] == LaneSettings(queue=3, patience_s=600)
    assert settings.lanes["lowlatency"] == LaneSettings()


def test_a_lane_can_be_added() -> None:
    settings = split(night={"engines": ["http://c:1"], "overflow": "batch"})
    assert list(settings.lanes) == ["lowlatency", "batch", "night"]


@pytest.mark.parametrize("name", ["Night", "a__b", "", "9", "a b", "-a", "x" * 33])
def test_a_lane_has_a_name_that_fits_into_a_variable_and_a_header(name: str) -> None:
    assert "lanes" in messages(lanes={name: {}})


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://127.0.0.1:8001/", "http://127.0.0.1:8001"),
        ("HTTP://Engine:80", "http://engine:80"),
        ("https://engine", "https://engine"),
        ("http://[::1]:9", "http://[::1]:9"),
    ],
)
def test_a_url_is_kept_as_scheme_host_and_port(written: str, url: str) -> None:
    assert EngineSettings(url=written).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "engine:8001",
        "ftp://a",
        "http://",
        "http://a/v1",
        "http://a?x=1",
        "http://a/#x",
        "http://a:99999",
        "http://a:b",
    ],
)
def test_a_url_with_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="url"):
        EngineSettings(url=url)


def test_a_refused_url_is_not_repeated_in_the_reason() -> None:
    with pytest.raises(ValidationError) as caught:
        EngineSettings(url="http://user:hunter2@a")
    [problem] = caught.value.errors(include_input=False)
    assert "hunter2" not in problem["msg"]


def test_an_engine_without_a_name_is_called_by_its_lane_and_place() -> None:
    settings = split(batch={"engines": ["http://b:1", {"url": "http://b:2", "name": "big"}, "http://b:3"]})
    assert [engine.name for engine in settings.engines_of("batch")] == ["batch-0", "big", "batch-2"]


@pytest.mark.parametrize("text", ["http://a:1, http://a:2", '["http://a:1", {"url": "http://a:2"}]'])
def test_engines_may_be_one_text(text: str) -> None:
    assert [engine.url for engine in LaneSettings.model_validate({"engines": text}).engines] == [
        "http://a:1",
        "http://a:2",
    ]


def test_slots_are_the_connections_of_all_engines() -> None:
    batch = {"pool_size": 10, "engines": ["http://b:1", {"url": "http://b:2", "pool_size": 5}]}
    assert split(batch=batch).slots_of("batch") == 15
    assert split(batch=batch | {"slots": 4}).slots_of("batch") == 4
    assert Settings().slots_of("batch") == 32


def test_one_lane_without_engines_beside_one_with_them_is_refused() -> None:
    assert "lanes.batch.engines: is empty" in messages(lanes={"lowlatency": {"engines": ["http://a:1"]}})


def test_in_topology_single_the_batch_lane_shares_the_engines_and_leaves_the_reserve() -> None:
    settings = tree(topology="single", lanes={"lowlatency": {"engines": ["http://a:1"]}})
    assert settings.engines_of("batch") == settings.engines_of("lowlatency")
    assert (settings.slots_of("lowlatency"), settings.slots_of("batch")) == (32, 24)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"topology": "single", "lanes": {"batch": {"engines": ["http://b:1"]}}}, "lanes.batch.engines: must be empty"),
        ({"topology": "single", "single": {"reserve": 32}}, "single.reserve: leaves no slot"),
        ({"topology": "single", "batch_lane": "lowlatency"}, "batch_lane: topology single needs"),
        ({"default_lane": "fast"}, "default_lane: there is no lane fast"),
        ({"batch_lane": "slow"}, "batch_lane: there is no lane slow"),
        ({"lanes": {"batch": {"overflow": "batch"}}}, "lanes.batch.overflow: a lane cannot overflow into itself"),
        ({"lanes": {"batch": {"overflow": "slow"}}}, "lanes.batch.overflow: there is no lane slow"),
        ({"server": {"host": "0.0.0.0"}}, "server.host: other machines can reach"),
        ({"server": {"host": ""}}, "server.host: other machines can reach"),
    ],
)
def test_combinations_that_cannot_work_are_refused_by_name(values: dict[str, object], problem: str) -> None:
    assert problem in messages(**values)


def test_two_engines_of_one_name_are_refused() -> None:
    twice = {"engines": [{"url": "http://a:1", "name": "x"}]}
    assert "2 engines have the name x" in messages(lanes={"lowlatency": twice, "batch": twice})


def test_an_open_server_has_to_be_wanted() -> None:
    assert tree(server={"host": "0.0.0.0", "allow_open": True}).server.host == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com"])
def test_what_other_machines_reach_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("lane", "name"), [({"routing": "best"}, "least_busy"), ({"buffer": {"strategy": "all"}}, "window")]
)
def test_a_name_that_is_in_no_registry_is_refused_with_those_that_are(lane: dict[str, object], name: str) -> None:
    assert name in messages(lanes={"batch": lane})


def test_the_batch_lane_is_patient_by_default_and_as_patient_as_it_is_told() -> None:
    """Case H67: a report waits for its turn as long as a client does, a chat does not."""
    lanes = tree().lanes
    assert (lanes["lowlatency"].patience_s, lanes["batch"].patience_s) == (30, 600)
    assert tree(lanes={"batch": {"queue": 7}}).lanes["batch"].patience_s == 600
    assert tree(lanes={"batch": {"patience_s": 5}}).lanes["batch"].patience_s == 5
    assert tree(lanes={"night": {}}).lanes["night"].patience_s == 30
