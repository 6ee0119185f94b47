"""docker-compose.yml: its engines are the profiles', and every way of serving is a valid file."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.engine.render import Launch
from app.metrics import Metrics
from config.profiles import load
from config.settings import Settings

ROOT = Path(__file__).parents[2]
WAYS = ["gpu", "single", "cpu", "sim", "gpu,observe"]
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def compose() -> list[str]:
    """A docker compose that is here, today's first."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(command[0])
            and subprocess.run([*command, "version"], check=False, capture_output=True).returncode == 0
        ):
            return command
    pytest.skip("there is no docker compose")


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_serving_is_a_valid_file(tmp_path: Path, way: str) -> None:
    """A copy with nothing but the example of .env beside it, as compose itself reads it."""
    command = compose()
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copy(ROOT / ".env.example", tmp_path / ".env")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COMPOSE_PROFILES": way}
    done = subprocess.run(
        [*command, "config"], check=False, cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    images = re.findall(r"^\s+image: (\S+)$", done.stdout, re.MULTILINE)
    assert images
    assert all(re.search(r":v?\d+\.\d+\.\d+", image) for image in images), images


@pytest.mark.parametrize(
    ("service", "profile"),
    [("vllm-lowlatency", "low-latency"), ("vllm-batch", "batch"), ("vllm-single", "single"), ("vllm-cpu", "cpu")],
)
def test_an_engines_command_is_its_profiles(service: str, profile: str) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    block = text[text.index(f"\n  {service}:") :]
    command = block[block.index("command: [") + 9 : block.index("\n    ]")]
    words = [DEFAULT.sub(r"\1", one or two) for one, two in re.findall(r"'([^']*)'|\"([^\"]*)\"", command)]
    assert words == [*Launch(load(profile)).words(), "--host", "0.0.0.0", "--port", "8000"]


def test_gateways_wait_longer_than_their_streams_may_take() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    grace = [int(seconds) for seconds in re.findall(r"stop_grace_period: (\d+)s", text)]
    assert min(grace) > Settings().server.stop_timeout_s
    assert min(grace) > int(str(load("quickstart").flags["shutdown-timeout"].value))


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    tree = json.loads((ROOT / "deploy" / "observe" / "grafana" / "dashboards" / "tokenlane.json").read_text())
    expressions = [target["expr"] for panel in tree["panels"] for target in panel.get("targets", ())]
    asked = {name for expression in expressions for name in re.findall(r"tokenlane_\w+", expression)}
    there = set(re.findall(r"^# TYPE (\w+)", Metrics(list).text().decode(), re.MULTILINE))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= there
