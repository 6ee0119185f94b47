"""The Python environment of vLLM: exactly `requirements.txt` and the stub, nothing of the project's own."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from once import Run, build_once, digest

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
STUB = HERE / "stub"


def ensure(folder: Path) -> Path:
    """Make the environment in `folder` unless it is there; returns its Python.

    Raises:
        FileNotFoundError: there is no uv, neither beside this Python nor on the PATH.
        subprocess.CalledProcessError: uv failed and has said why.
    """
    uv = find_uv()
    python = folder / "bin" / "python"

    def build(run: Run) -> None:
        print(f"installing vLLM for CPU into {folder} (about 600 MB of downloads, once) ...", file=sys.stderr)
        at = folder.parent
        run([uv, "venv", "--quiet", "--python", sys.executable, folder], cwd=at)
        run([uv, "pip", "sync", "--python", python, *torch_source(os.environ), REQUIREMENTS], cwd=at)
        # setuptools writes beside the source that it builds
        source = shutil.copytree(STUB, folder / "stub")
        install = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "--no-build-isolation"]
        run([*install, source], cwd=at)

    version = sys.version.encode()
    build_once(folder, digest(REQUIREMENTS.read_bytes(), (STUB / "pyproject.toml").read_bytes(), version), build)
    return python


def find_uv() -> Path:
    """The uv beside this Python, else the first on the PATH; raises FileNotFoundError when there is none."""
    beside = Path(sys.executable).with_name("uv")
    found = beside if beside.exists() else shutil.which("uv")
    if found is None:
        raise FileNotFoundError("uv is neither beside this Python nor on the PATH: pip install uv")
    return Path(found)


def torch_source(variables: Mapping[str, str]) -> list[str]:
    """Options of uv for torch's CPU build, which is not on PyPI.

    Folders or pages that pip was told of by PIP_FIND_LINKS come first; without them it is PyTorch's own index.
    """
    links = variables.get("PIP_FIND_LINKS", "").split()
    if not links:
        return ["--torch-backend", "cpu"]
    return [option for link in links for option in ("--find-links", link)]
