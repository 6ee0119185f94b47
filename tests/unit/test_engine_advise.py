"""What fits: sizes of weights and caches against figures that vLLM and the checkpoints' indexes state."""

import json
from pathlib import Path

import pytest

from app.engine import advise, gpus, report
from app.engine.kv import Cache, kv_element
from app.engine.model import find
from app.engine.shape import NoModel, card_bytes, checkpoint_bytes, from_config
from config.profiles import load, names

GIB = 1024**3
TWENTY = find("openai/gpt-oss-20b")
PROFILES = {name: load(name) for name in names()}


@pytest.mark.parametrize(
    ("model", "total_size"), [("openai/gpt-oss-20b", 13_761_264_768), ("openai/gpt-oss-120b", 65_248_815_744)]
)
def test_the_computed_size_of_gpt_oss_is_that_of_its_index(model: str, total_size: int) -> None:
    assert find(model).checkpoint == total_size


def test_the_padded_weights_of_a_card_are_what_vllm_reports() -> None:
    """As vLLM reported: 65.97 GiB for gpt-oss-120b with Marlin kernels on one H100 (vllm-project/vllm#23278)."""
    found = find("openai/gpt-oss-120b")
    assert card_bytes(found.shape, found.checkpoint, 1) / GIB == pytest.approx(65.97, rel=0.002)


def test_two_cards_hold_a_little_more_than_half_each() -> None:
    one, two = (card_bytes(TWENTY.shape, TWENTY.checkpoint, cards) for cards in (1, 2))
    assert two > one / 2
    assert two < one * 0.53


def test_sliding_layers_of_gpt_oss_are_every_other_one_named_or_not() -> None:
    tree = json.loads((Path(advise.__file__).parent / "models" / "openai--gpt-oss-20b.json").read_text())
    named = from_config(tree | {"layer_types": ["sliding_attention", "full_attention"] * 12})
    assert named.sliding_layers == from_config(tree).sliding_layers == 12


def test_a_window_that_is_not_used_does_not_count() -> None:
    tree = {
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "hidden_size": 64,
        "vocab_size": 8,
        "intermediate_size": 8,
    }
    assert from_config(tree | {"sliding_window": 32, "use_sliding_window": False}).sliding_layers == 0
    assert from_config(tree | {"sliding_window": 32}).sliding_layers == 4


def test_a_token_of_gpt_oss_grows_the_cache_by_its_full_attention_layers_alone() -> None:
    cache = Cache(TWENTY.shape, 1, 16, 2)
    assert cache.token_bytes == 12 * 2 * 8 * 64 * 2 == 24 * 1024
    assert cache.blocks(16_384, 2) - cache.blocks(8192, 2) == 8192 // 16


def test_a_window_takes_its_tokens_and_those_in_flight_and_never_more_than_the_sequence() -> None:
    cache = Cache(TWENTY.shape, 1, 16, 2)
    assert cache.blocks(8192, 4096) == 8192 // 16 + -(-(127 + 4096) // 16) + 1
    assert cache.blocks(1024, 16_384) == 1024 // 16 + 1024 // 16 + 1


def test_heads_are_shared_by_the_cards_and_repeated_when_there_are_more_cards() -> None:
    per_card = [Cache(TWENTY.shape, cards, 16, 2).token_bytes for cards in (1, 2, 8, 16)]
    assert per_card == [24576, 12288, 3072, 3072]


def test_layers_of_nearly_equal_number_form_groups_of_the_larger() -> None:
    tree = {"num_attention_heads": 4, "hidden_size": 64, "vocab_size": 8, "intermediate_size": 8, "sliding_window": 32}
    kinds = ["full_attention"] * 10 + ["sliding_attention"] * 12
    shape = from_config(tree | {"num_hidden_layers": 22, "layer_types": kinds})
    assert Cache(shape, 1, 16, 2).group_layers == 12
    kinds = ["full_attention"] * 10 + ["sliding_attention"] * 20
    shape = from_config(tree | {"num_hidden_layers": 30, "layer_types": kinds})
    assert Cache(shape, 1, 16, 2).blocks(64, 64) == 4 + 2 * 5


def test_fp8_halves_the_cache() -> None:
    assert [kv_element(dtype, TWENTY.shape) for dtype in ("auto", "bfloat16", "fp8", "fp8_e5m2")] == [2, 2, 1, 1]


def test_one_card_of_24_gib_serves_both_lanes_by_one_engine_and_not_by_two() -> None:
    ways = advise.topologies(PROFILES, TWENTY, [24 * GIB], max_len=None, overhead=advise.OVERHEAD)
    assert [(way.name, way.starts) for way in ways] == [("single", True), ("split", False)]


def test_two_cards_of_24_gib_serve_an_engine_a_lane() -> None:
    ways = advise.topologies(PROFILES, TWENTY, [24 * GIB] * 2, max_len=None, overhead=advise.OVERHEAD)
    assert [fit.cards for fit in ways[0].fits] == [1, 1]
    assert ways[0].starts
    assert [fit.cards for fit in ways[1].fits] == [2]


def test_what_the_low_latency_profile_says_of_a_24_gb_card_is_true() -> None:
    fit = advise.fit(PROFILES["low-latency"], TWENTY, 24 * GIB, 1)
    assert fit.generating == 48
    assert fit.generating >= fit.wanted


def test_what_the_batch_profile_says_of_a_24_gb_card_is_true() -> None:
    fit = advise.fit(PROFILES["batch"], TWENTY, 24 * GIB, 1)
    assert fit.generating == 33
    assert advise.fit(PROFILES["batch"], TWENTY, 24 * GIB, 1, max_len=2000).generating >= 128


def test_a_sequence_that_does_not_fit_once_does_not_start() -> None:
    fit = advise.fit(PROFILES["quickstart"], TWENTY, 16 * GIB, 1, share=0.99, max_len=131_072)
    assert not fit.starts
    way = advise.Topology("single", "x", [fit])
    text = "\n".join(report.lines(TWENTY, [16 * GIB], [way], [fit], advise.OVERHEAD))
    assert "does not start" in text
    assert "advice: the model does not fit these cards" in text


def test_the_size_of_a_model_in_a_folder_is_that_of_its_index_then_of_its_files(tmp_path: Path) -> None:
    tree = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "hidden_size": 64,
        "vocab_size": 8,
        "intermediate_size": 8,
    }
    (tmp_path / "config.json").write_text(json.dumps(tree))
    assert find(str(tmp_path)).checkpoint == checkpoint_bytes(from_config(tree))
    (tmp_path / "model-1.safetensors").write_bytes(bytes(1000))
    assert find(str(tmp_path)).checkpoint == 1000
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 990}}))
    assert find(str(tmp_path)).checkpoint == 990


def test_a_model_that_is_nowhere_is_told_and_so_is_one_that_cannot_be_computed(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match="no folder"):
        find("nobody/nothing")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(NoModel, match="num_hidden_layers"):
        find(str(tmp_path))


def test_amounts_of_memory_are_read_with_their_units() -> None:
    assert gpus.parse("24GiB,24 GiB, 22528MiB") == [24 * GIB, 24 * GIB, 22 * GIB]
    assert gpus.parse("24GB") == [24_000_000_000]
    with pytest.raises(ValueError, match="no amount"):
        gpus.parse("24 apples")
