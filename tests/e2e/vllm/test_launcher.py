"""The launcher of `make run-cpu`, without vLLM: nothing is left running, nothing half installed is used."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from scripts.vllm_cpu.binding import MOST, as_bind, deal, physical_cores
from scripts.vllm_cpu.once import MARKER, Run, build_once, digest, variables

GUARD = Path(__file__).parents[3] / "scripts" / "vllm_cpu" / "guard.py"
LONG = 60
PARENT = "sleep 60 & echo $!; wait"
"""Says the number of its child, then waits for it."""
STUBBORN = "trap '' TERM; sleep 60 & echo $!; wait"
"""Does what PARENT does, and so does its child, but neither heeds SIGTERM."""


@contextmanager
def guarded(script: str, grace: float) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A shell script under guard, and the number that it said first."""
    command: list[str | Path] = [sys.executable, "-I", GUARD, str(grace), "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout
        yield guard, int(guard.stdout.readline())


def assert_gone(pid: int) -> None:
    with suppress(ProcessLookupError):
        assert select.select([os.pidfd_open(pid)], [], [], 10)[0], f"{pid} still lives"


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 128 + 9)])
def test_the_exit_code_is_the_command_s(script: str, code: int) -> None:
    with guarded(f"echo $$; {script}", LONG) as (guard, _):
        assert guard.wait(10) == code


def test_the_end_of_the_pipe_ends_the_command_and_its_children() -> None:
    with guarded(PARENT, LONG) as (guard, child):
        assert guard.stdin
        guard.stdin.close()
        assert guard.wait(10) == 128 + signal.SIGTERM
    assert_gone(child)


def test_a_killed_launcher_leaves_nothing() -> None:
    launcher = (
        "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True).wait()"
    )
    command = [sys.executable, "-c", launcher, sys.executable, str(GUARD), "1", "sh", "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        process.kill()
    assert_gone(child)


def test_what_does_not_heed_the_request_is_killed_after_its_grace() -> None:
    with guarded(STUBBORN, 0.2) as (guard, child):
        assert guard.stdin
        guard.stdin.close()
        assert guard.wait(10) == 128 + signal.SIGKILL
    assert_gone(child)


def test_after_a_byte_the_end_of_the_pipe_kills_at_once() -> None:
    with guarded(STUBBORN, LONG) as (guard, child):
        assert guard.stdin
        guard.stdin.write(".")
        guard.stdin.close()
        assert guard.wait(10) == 128 + signal.SIGKILL
    assert_gone(child)


@pytest.mark.parametrize(("trap", "grace"), [("", LONG), ("trap '' TERM;", 0.2)])
def test_children_of_a_command_that_ended_by_itself_are_ended_too(trap: str, grace: float) -> None:
    with guarded(f"{trap} sleep 60 & echo $!; exit 3", grace) as (guard, child):
        assert guard.wait(10) == 3
    assert_gone(child)


def test_a_ctrl_c_does_not_reach_the_command() -> None:
    with guarded(PARENT, LONG) as (guard, child):
        guard.send_signal(signal.SIGINT)
        guard.send_signal(signal.SIGTERM)
        assert os.getpgid(child) != os.getpgid(guard.pid)
        assert guard.stdin
        guard.stdin.close()
        assert guard.wait(10) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("cores", "engines", "dealt"),
    [
        ([[0], [1]], 2, [[0], [1]]),
        ([[0, 2], [1, 3]], 2, [[0], [1]]),
        ([[0, 1]], 2, [[0], [1]]),
        ([[0]], 2, [[0], [0]]),
        ([[0]], 1, [[0]]),
        ([[0], [1]], 1, [[0]]),
        ([[0], [1], [2]], 2, [[0], [1]]),
        ([[0], [1], [2], [3], [4]], 2, [[0, 2], [1, 3]]),
    ],
)
def test_the_engines_compute_on_cores_of_their_own_and_leave_one_if_they_can(
    cores: list[list[int]], engines: int, dealt: list[list[int]]
) -> None:
    assert deal(cores, engines) == dealt


def test_an_engine_gets_no_more_cores_than_help_it() -> None:
    assert [len(cpus) for cpus in deal([[cpu] for cpu in range(64)], 2)] == [MOST, MOST]


def test_the_threads_of_a_core_are_found_by_their_siblings(tmp_path: Path) -> None:
    for cpu in range(4):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")

    assert physical_cores({0, 1, 2, 3}, tmp_path) == [[0, 2], [1, 3]]
    assert physical_cores({1, 3}, tmp_path) == [[1, 3]]
    assert physical_cores({8, 9}, tmp_path) == [[8], [9]]
    assert as_bind([0, 2]) == "0,2"


def test_what_is_whole_is_built_once_and_again_when_the_recipe_changes(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(run: Run) -> None:
        assert not folder.exists()
        run(["mkdir", folder], cwd=tmp_path)
        built.append(folder)

    folder = tmp_path / "parent" / "thing"
    assert [build_once(folder, recipe, build) for recipe in ("a", "a", "b")] == [True, False, True]
    assert len(built) == 2


def test_what_was_interrupted_is_built_again_from_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "thing"

    def build(run: Run) -> None:
        assert not folder.exists()
        folder.mkdir()
        (folder / "half").touch()
        run([sys.executable, "-c", "raise SystemExit(1)"], cwd=folder)

    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            build_once(folder, "a", build)
        assert not (folder / MARKER).exists()


def test_two_at_once_build_one_after_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    began, go_on = threading.Event(), threading.Event()

    def slow(run: Run) -> None:
        began.set()
        assert go_on.wait(10)
        folder.mkdir()

    outcomes: list[bool] = []
    first = threading.Thread(target=lambda: outcomes.append(build_once(folder, "a", slow)))
    second = threading.Thread(target=lambda: outcomes.append(build_once(folder, "a", slow)))
    first.start()
    assert began.wait(10)
    second.start()
    go_on.set()
    first.join(10)
    second.join(10)
    assert sorted(outcomes) == [False, True]


def test_variables_about_this_python_are_not_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert "PYTHONPATH" not in variables()
    assert variables(LANG="de_DE")["LANG"] == "de_DE"


def test_a_recipe_is_all_of_its_parts() -> None:
    assert len({digest(b"a", b"b"), digest(b"ab"), digest(b"b", b"a")}) == 3
