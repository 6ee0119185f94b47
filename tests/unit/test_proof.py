"""What the proofs decide without starting anything."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.bench.load import Load
from app.bench.outcome import OK, Outcome
from app.bench.summary import Record, cell
from app.engine.catalogue import as_json, recorded
from benchmarks.proof.background import shares, together
from benchmarks.proof.baseline import named
from benchmarks.proof.book import Book, merged
from benchmarks.proof.engine import Flags, Launcher, Place, known
from benchmarks.proof.gateway import single, split
from benchmarks.proof.gpu import dealt, parser
from benchmarks.proof.lengths import ENOUGH, lengths, swept
from benchmarks.proof.measure import Asked, closed
from benchmarks.proof.plot import bursts, lanes
from benchmarks.proof.process import Process, ProcessFailed, running
from benchmarks.proof.sessions import SESSIONS
from benchmarks.proof.tables import markdown
from config.load import load


def measured(*ttfts: float) -> Any:
    outcomes = [Outcome(OK, began=0, ended=1, ttft=ttft, span=0.9, tokens=10, events=10) for ttft in ttfts]
    return cell(Record(Load(concurrency=1, requests=len(ttfts)), outcomes, seconds=2.0))


@pytest.fixture
def options(tmp_path: Path) -> Path:
    file = tmp_path / "options.json"
    file.write_text(as_json(recorded()))
    return file


def test_flags_that_a_vllm_does_not_know_are_left_out_and_told(options: Path) -> None:
    kept, dropped = known([["--max-num-seqs", "64"], ["--swap-space", "4"]], options)
    assert kept == ["--max-num-seqs", "64"]
    assert dropped == ["--swap-space", "4"]


def test_a_profile_is_rendered_with_changes_and_without_what_is_not_wanted(tmp_path: Path, options: Path) -> None:
    launcher = Launcher("vllm serve {model} --port {port} {flags}", "some/model", {}, tmp_path, options)
    flags = launcher.profile("quickstart", drop=["block-size"], tensor_parallel_size="1").plus("--max-num-seqs", "2")
    command = launcher.command(flags, 9)
    assert command[:5] == ["vllm", "serve", "some/model", "--port", "9"]
    assert command[command.index("--tensor-parallel-size") + 1] == "1"
    assert "--block-size" not in command
    assert command[-2:] == ["--max-num-seqs", "2"]


def test_a_command_of_ones_own_gets_what_it_asks_for(tmp_path: Path) -> None:
    launcher = Launcher("mine --port {port} --seats {max_num_seqs}", "m", {}, tmp_path)
    assert launcher.command(Flags("x", ("--unused",), slots=7), 9) == ["mine", "--port", "9", "--seats", "7"]


def test_a_place_pins_the_card_and_the_caches(tmp_path: Path) -> None:
    variables = Place(1, caches=tmp_path).variables()
    assert variables["CUDA_VISIBLE_DEVICES"] == "1"
    assert variables["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert Place(more={"A": "b"}).variables() == {"A": "b"}


@pytest.mark.parametrize(
    "settings", [split("http://a:1", "http://a:1", {"lowlatency": 4, "batch": 8}), single("http://a:1", 96, 8)]
)
def test_the_gateway_takes_the_settings_of_each_topology(settings: dict[str, object], tmp_path: Path) -> None:
    given = {path: str(value) for path, value in settings.items()}
    loaded = load(overrides=given, file=None, environ={}, env_file=tmp_path / "none").settings
    assert loaded.engines_of("batch")
    assert loaded.slots_of("batch") in (8, 88)


def test_cores_are_dealt_so_that_nobody_shares_or_nobody_is_bound() -> None:
    cores = dealt(range(16))
    dealt_out = [*cores.engine, *cores.gateway, *cores.batch, *cores.client]
    assert sorted(dealt_out) == list(range(16))
    assert dealt(range(4)).engine == ()


def test_every_step_belongs_to_one_session_and_can_be_asked_for() -> None:
    names = [step for session in SESSIONS.values() for step in session.steps]
    assert len(names) == len(set(names))
    assert parser().parse_args(["--out", "x", "--steps", ",".join(names)]).steps == tuple(names)


def test_each_32_tokens_have_two_lengths_one_of_them_a_multiple_of_16() -> None:
    found = sorted(lengths(2048))
    assert {(length + 31) // 32 for length in found if length % 16 == 0} == set(range(1, 65))
    assert {(length + 31) // 32 for length in found if length % 16} == set(range(1, 65))


def test_lengths_are_asked_until_none_of_a_dozen_was_late() -> None:
    met: set[int] = set()

    def ask(length: int) -> float:
        seconds = 0.02 if length <= 1024 or length in met else 0.8
        met.add(length)
        return seconds

    compiling, compiled = swept(ask, 8192, 1e9), swept(ask, 8192, 1e9)
    assert compiling.asked == 2 * 256
    assert compiling.late == 2 * (256 - 32)
    assert (compiled.asked, compiled.late) == (ENOUGH, 0)


def test_lengths_end_when_their_time_is_over() -> None:
    times = iter(range(1000))
    assert swept(lambda length: 0.02, 8192, 5, lambda: next(times)).asked == 5


def test_users_are_dealt_out_to_the_groups_of_the_background() -> None:
    assert shares(8, 5) == [2, 2, 2, 1, 1]
    assert sum(shares(64, 5)) == 64


def test_groups_that_ran_together_count_once_in_time_and_cpu() -> None:
    load_ = Load(concurrency=1, requests=1)
    records = [Record(load_, [Outcome(OK, tokens=5)], seconds=s, cpu=1.0) for s in (3.0, 4.0)]
    whole = together(records, 2)
    assert (len(whole.outcomes), whole.seconds, whole.cpu) == (2, 4.0, 1.0)


def test_a_try_is_small_and_has_a_request_for_each_user() -> None:
    small = closed(Asked("m", scale=0.01), 64)
    assert (small.requests, small.warmup) == (64, 64)
    assert closed(Asked("m"), 64).requests == 256


def test_a_book_is_on_the_disk_after_each_entry_and_without_curves(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    book = Book(file, {"session": "s"})
    book.add("rows", {"profile": "p", "users": 1, "cell": measured(0.1, 0.2)})
    tree = json.loads(file.read_text())
    assert tree["rows"][0]["cell"]["ttft_ms"]["p50"] == 150
    assert "curve" not in tree["rows"][0]["cell"]["ttft_ms"]
    both = merged([file, file], {"facts": {}})
    assert len(both["rows"]) == 2


def test_tables_tell_figures_and_what_went_wrong(tmp_path: Path) -> None:
    book = Book(tmp_path / "a.json", {"facts": {"commit": "abc"}})
    book.add("rows", {"profile": "low-latency", "users": 16, "cell": measured(0.1, 0.2)})
    book.problem("lanes", "an engine\nended")
    told = markdown(book.tree)
    assert "| low-latency | 16 | 150 / 195 |" in told
    assert "**lanes**: an engine\n" in told
    assert "abc" in told


def test_charts_show_the_heaviest_load_and_the_first_burst() -> None:
    def entry(how: str, users: int, ttft: float) -> dict[str, Any]:
        return {"how": how, "users": users, "chat": measured(ttft)}

    tree = {"lanes": [entry("shared", 0, 0.03), entry("shared", 64, 2.0), entry("shared", 256, 3.0)]}
    picture = lanes(tree)
    assert picture is not None
    assert "3.00 s" in picture
    assert "2.00 s" not in picture
    first = {"start": "no warm-up", "turn": 1, "users": 16, "cell": measured(6.4)}
    assert "6.40 s" in str(bursts({"bursts": [first, {**first, "users": 64, "cell": measured(2.6)}]}))
    assert lanes({}) is None
    assert bursts({}) is None


def test_a_model_without_an_architecture_gets_one_in_a_view_of_it(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama"}')
    (model / "weights").write_text("w")
    for _ in range(2):
        view = named(model, tmp_path / "view")
        assert json.loads((view / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
    assert (view / "weights").read_text() == "w"
    assert json.loads((model / "config.json").read_text()) == {"model_type": "llama"}


def test_a_process_that_ends_by_itself_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with (
        running("a thing", ["sh", "-c", "echo too bad; exit 3"], log=tmp_path / "log") as process,
        pytest.raises(ProcessFailed, match=r"(?s)a thing ended with 3.*too bad"),
    ):
        process.until_ready("http://127.0.0.1:9/health", 20)


def test_nothing_of_a_process_is_left_after_the_block(tmp_path: Path) -> None:
    def started() -> tuple[Process, Path]:
        pids = tmp_path / "pids"
        with running("s", ["sh", "-c", f"sleep 60 & echo $! > {pids}; wait"], log=tmp_path / "log", grace=2) as process:
            while not pids.exists() or not pids.read_text().strip():
                pass
            assert process.cpu_seconds() >= 0
        return process, pids

    _, pids = started()
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()
