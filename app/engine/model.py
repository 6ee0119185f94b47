"""Where a model is on this machine: its config.json and the size of its weights."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.engine.shape import NoModel, Shape, checkpoint_bytes, from_config

MODELS = Path(__file__).with_name("models")
"""Configurations that come with this package, for models that are not here yet: `OWNER--NAME.json`."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model that was found: its shape, the bytes of its weights, and where both come from."""

    shape: Shape
    checkpoint: int
    source: str


def find(model: str) -> Found:
    """Finds a model by folder or by name: in the folder, in Hugging Face's cache, or in this package.

    Raises:
        NoModel: there is none, or it cannot be computed.
    """
    for folder in (Path(model).expanduser(), *_cached(model)):
        if (config := folder / "config.json").is_file():
            shape = from_config(_json(config))
            return _measured(shape, folder)
    bundled = MODELS / f"{model.replace('/', '--')}.json"
    if not bundled.is_file():
        raise NoModel(f"{model}: no folder with a config.json, not in Hugging Face's cache, and not known here")
    shape = from_config(_json(bundled))
    return Found(shape, checkpoint_bytes(shape), "the configuration that comes with tokenlane")


def _cached(model: str) -> list[Path]:
    """Folders of Hugging Face's cache that may hold the model."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return sorted((hub / f"models--{model.replace('/', '--')}" / "snapshots").glob("*"))


def _measured(shape: Shape, folder: Path) -> Found:
    """The size from the index of the safetensors, else from the files, else computed."""
    index = folder / "model.safetensors.index.json"
    if index.is_file() and (total := _json(index).get("metadata", {}).get("total_size")):
        return Found(shape, int(total), str(index))
    if files := list(folder.glob("*.safetensors")):
        return Found(shape, sum(file.stat().st_size for file in files), f"the safetensors in {folder}")
    return Found(shape, checkpoint_bytes(shape), f"computed from {folder / 'config.json'}")


def _json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoModel(f"{path}: {error}") from None
    if not isinstance(tree, dict):
        raise NoModel(f"{path}: not an object")
    return tree
