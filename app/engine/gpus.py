"""The memory of this machine's cards."""

import importlib
import re
from typing import Any

GIB = 1024**3
UNITS = {"": 1, "b": 1, "mib": 1024**2, "gib": GIB, "mb": 10**6, "gb": 10**9, "m": 1024**2, "g": GIB}
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")


class NoCards(Exception):
    """The cards cannot be read; the message says why and what to do."""


def parse(text: str) -> list[int]:
    """Bytes of each card in `24GiB,24GiB`.

    Raises:
        ValueError: an amount is not understood.
    """
    return [_amount(word.strip()) for word in text.split(",")]


def _amount(word: str) -> int:
    match = AMOUNT.fullmatch(word)
    if match is None or match[2].lower() not in UNITS:
        raise ValueError(f"{word!r} is no amount of memory, such as 24GiB")
    return int(float(match[1]) * UNITS[match[2].lower()])


def installed() -> list[int]:
    """Bytes of each card, from NVIDIA's driver.

    Raises:
        NoCards: nvidia-ml-py is not installed, or there is no driver or no card.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError:
        raise NoCards(
            "nvidia-ml-py is not installed (pip install nvidia-ml-py); or say --gpu-memory 24GiB,24GiB"
        ) from None
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
        cards = [int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles]
    except nvml.NVMLError as error:
        raise NoCards(f"no NVIDIA card can be read ({error}); say --gpu-memory 24GiB,24GiB") from None
    if not cards:
        raise NoCards("there is no NVIDIA card; say --gpu-memory 24GiB,24GiB")
    return cards
