"""The effective tree as text: one line a setting, with its origin; secrets are masked."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from config.load import Loaded, SettingPath


def lines(loaded: Loaded) -> Iterator[str]:
    """`path = value`, the value in JSON, and the origin behind a `#`, in columns."""
    rows = [(".".join(path), value, loaded.origin(path)) for path, value in leaves(loaded.settings)]
    texts = [f"{path} = {json.dumps(value, ensure_ascii=False)}" for path, value, _ in rows]
    width = min(72, max(len(text) for text in texts))
    for text, (_, _, origin) in zip(texts, rows, strict=True):
        yield f"{text:<{width}}  # {origin}"


def leaves(model: BaseModel) -> Iterator[tuple[SettingPath, Any]]:
    """Every setting and its value as JSON has it; a list is one value, since a source gives it whole."""
    return _leaves(model.model_dump(mode="json"), ())


def _leaves(value: Any, path: SettingPath) -> Iterator[tuple[SettingPath, Any]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif isinstance(value, list):
        yield path, [_without_nulls(item) for item in value]
    else:
        yield path, value


def _without_nulls(item: Any) -> Any:
    return {key: value for key, value in item.items() if value is not None} if isinstance(item, dict) else item
