"""The command line: what it prints and with which status it ends."""

import argparse
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from app.cli import main, parser, sim
from app.cli.sources import assignment
from app.sim.settings import SimSettings


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No configuration but what a test writes."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def usage_error(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error("--version") == 0
    assert capsys.readouterr().out.startswith("tokenlane ")


@pytest.mark.parametrize(
    "arguments",
    [[], ["dance"], ["config"], ["serve", "--prt", "1"], ["serve", "--set", "queue"], ["sim", "--port", "x"]],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    assert usage_error(*arguments) == 2


def test_show_prints_each_setting_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--port", "90", "--set", "lanes.batch.queue=128"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["server.port", "=", "90", "#", "command", "line"] in shown
    assert ["lanes.batch.queue", "=", "128", "#", "command", "line"] in shown
    assert ["lanes.lowlatency.queue", "=", "64", "#", "default"] in shown


def test_host_and_port_are_stronger_than_set(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "show", "--port", "1", "--set", "server.port=2"])
    assert "server.port = 1 " in capsys.readouterr().out


def test_check_warns_and_passes_for_what_can_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("warning: lanes: no lane has an engine")
    assert out[-1] == "the settings are valid; warnings: 1"


def test_check_has_nothing_to_say_about_an_ordinary_file(
    an_empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = an_empty_folder / "mine.toml"
    file.write_text('[lanes]\nlowlatency.engines = ["http://a:1"]\nbatch.engines = ["http://b:1"]\n')
    assert main(["config", "check", "--config", str(file)]) == 0
    assert capsys.readouterr().out == "the settings are valid\n"


@pytest.mark.parametrize("command", [["config", "check"], ["config", "show"], ["serve"]])
def test_settings_that_cannot_be_used_end_with_1_and_a_line_for_each_problem(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--config", "nowhere.toml", "--port", "x", "--set", "topolgy=single"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "tokenlane: nowhere.toml: there is no such file",
        "tokenlane: command line: topolgy: is not a setting; did you mean topology?",
        "tokenlane: command line: server.port: must be a valid integer, unable to parse string as an integer",
    ]


def test_an_open_server_without_keys_cannot_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--host", "0.0.0.0"]) == 1
    assert "set server.allow_open = true" in capsys.readouterr().err


def test_a_simulated_engine_out_of_bounds_is_not_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--itl-ms", "-1"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "itl_ms" in line


def test_every_option_of_the_simulated_engine_is_one_of_its_settings() -> None:
    assert sim.OPTIONS.keys() <= {field.name for field in fields(SimSettings)}


def test_the_options_that_are_asked_for_reach_the_simulated_engine() -> None:
    parsed = parser().parse_args(["sim", "--ttft-ms", "5", "--max-num-seqs", "3", "--port", "9"])
    assert (parsed.ttft_ms, parsed.max_num_seqs, parsed.port, parsed.itl_ms) == (5.0, 3, 9, None)


@pytest.mark.parametrize(("text", "pair"), [("a.b=1", ("a.b", "1")), (" a = b=c ", ("a", "b=c")), ("a=", ("a", ""))])
def test_an_assignment_is_split_at_its_first_sign(text: str, pair: tuple[str, str]) -> None:
    assert assignment(text) == pair


@pytest.mark.parametrize("text", ["", "a", "=1", " =1"])
def test_text_without_path_or_sign_is_no_assignment(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not PATH=VALUE"):
        assignment(text)


def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    code = "import sys; from app.cli import main; sys.exit(main(['config', 'show']))"
    root = Path(__file__).parents[2]
    shown = subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert shown.stdout is not None
    shown.stdout.close()
    _, err = shown.communicate(timeout=30)
    assert err == b""


def test_help_and_mistakes_import_nothing_heavy() -> None:
    code = (
        "import sys; from app.cli import parser; parser().format_help(); "
        "print([name for name in ('pydantic', 'fastapi', 'uvicorn', 'httpx', 'asyncio') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_port_that_is_taken_is_one_line_and_exit_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [
            sys.executable,
            "-c",
            "import sys; from app.cli import main; sys.exit(main())",
            "serve",
            "--port",
            port,
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"tokenlane: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert "Traceback" not in ended.stderr
