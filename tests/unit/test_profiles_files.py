"""The profiles: what is in them, and how a mistake in one is told."""

import tomllib
from pathlib import Path

import pytest

from config.profiles import FOLDER, Profile, ProfileError, load, names

PROFILES = [load(name) for name in names()]


def test_the_profiles_of_the_tuning_articles_are_there() -> None:
    assert names() == ["batch", "cpu", "high-concurrency", "kv-cache", "low-latency", "quickstart", "single"]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_lane_admits_as_many_as_its_engine_runs(profile: Profile) -> None:
    assert profile.lane.slots == profile.flags["max-num-seqs"].value


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_advice_names_a_measurement_or_a_source_or_says_that_there_is_none(profile: Profile) -> None:
    words = ("vllm", "measured", "seen", "started", "articles", "config.json", "profile", "tokenlane")
    for flag in [*profile.flags.values(), *profile.environment.values()]:
        assert any(word in flag.source.lower() for word in words), flag


def test_a_profile_has_the_flags_of_its_base_and_its_own_instead() -> None:
    base, own = load("quickstart"), load("low-latency")
    assert own.flags["dtype"] == base.flags["dtype"]
    assert (base.flags["tensor-parallel-size"].value, own.flags["tensor-parallel-size"].value) == (2, 1)
    assert own.lane.name == "lowlatency"


def test_values_become_words_of_a_command_line() -> None:
    words = load("low-latency").arguments()
    assert "--enable-prefix-caching" in words
    assert words[words.index("--override-generation-config") + 1] == '{"temperature": 0.0, "top_p": 0.95}'
    assert words[words.index("--gpu-memory-utilization") + 1] == "0.85"


def test_a_change_replaces_a_flag_in_its_place_or_follows() -> None:
    words = load("quickstart").arguments({"tensor-parallel-size": "4", "seed": "7"})
    assert words[:2] == ["--tensor-parallel-size", "4"]
    assert words[-2:] == ["--seed", "7"]
    assert words.count("--tensor-parallel-size") == 1


def _written(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.toml").write_text(text)


def test_a_mistake_is_told_with_file_and_key(tmp_path: Path) -> None:
    text = (FOLDER / "cpu.toml").read_text()
    _written(
        tmp_path, "mine", text.replace('hardware = "cpu"', 'hardware = "tpu"').replace("[flags.dtype]", "[flags.DTYPE]")
    )
    with pytest.raises(ProfileError) as caught:
        load("mine", tmp_path)
    assert "mine.toml" in str(caught.value)
    assert "hardware" in str(caught.value)
    assert "DTYPE" in str(caught.value)


def test_a_flag_without_a_reason_is_refused(tmp_path: Path) -> None:
    tree = tomllib.loads((FOLDER / "cpu.toml").read_text())
    assert tree["flags"]["dtype"].pop("reason")
    _written(tmp_path, "mine", (FOLDER / "cpu.toml").read_text().replace('reason = "Half', 'resaon = "Half'))
    with pytest.raises(ProfileError, match=r"dtype.reason"):
        load("mine", tmp_path)


def test_a_base_stands_alone(tmp_path: Path) -> None:
    for name in ("low-latency", "quickstart"):
        _written(tmp_path, name, (FOLDER / f"{name}.toml").read_text())
    _written(tmp_path, "mine", 'based_on = "low-latency"')
    with pytest.raises(ProfileError, match="a base stands alone"):
        load("mine", tmp_path)


def test_a_name_that_is_none_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="quickstart"):
        load("quikstart")
    with pytest.raises(ProfileError, match="there is no profile"):
        load("../gateway", tmp_path)


def test_a_file_that_is_not_toml_is_told_with_its_name(tmp_path: Path) -> None:
    _written(tmp_path, "mine", "purpose = ")
    with pytest.raises(ProfileError, match=r"mine\.toml"):
        load("mine", tmp_path)
