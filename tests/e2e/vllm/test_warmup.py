"""A gateway warms real engines before it says that it is ready, and the first burst after that is like all others."""

import json
import math
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from openai import OpenAI

from tests.e2e.vllm.conftest import TO_START, Engine, answers, client_of, started_gateway

pytestmark = pytest.mark.vllm

SLOTS = 4
ENGINE = "lowlatency-0"
SMALL = {
    "TOKENLANE_TOPOLOGY": "single",
    "TOKENLANE_SINGLE__RESERVE": "1",
    "TOKENLANE_LANES__LOWLATENCY__POOL_SIZE": str(SLOTS),
    "TOKENLANE_WARMUP__PROMPT_TOKENS": "[16]",
    "TOKENLANE_WARMUP__LONGEST_PROMPT": "0",
}


def reasons(url: str) -> list[str]:
    """Why the gateway is not ready; empty where it is, or nobody listens yet."""
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=5):
            return []
    except urllib.error.HTTPError as answer:
        told: list[str] = json.load(answer)["reasons"]
        return told
    except OSError:
        return []


def ttft(client: OpenAI) -> float:
    """Seconds until the first chunk of a stream."""
    began = time.monotonic()
    body = {"ignore_eos": True}
    with client.completions.create(
        model="smollm2", prompt=f"{began}: once upon a time", max_tokens=8, stream=True, extra_body=body
    ) as stream:
        next(stream)
        took = time.monotonic() - began
        list(stream)
    return took


def burst(client: OpenAI) -> float:
    """The TTFT of as many requests at once as there are slots: their 95th percentile."""
    with ThreadPoolExecutor(SLOTS) as threads:
        ttfts = sorted(threads.map(lambda _: ttft(client), range(SLOTS)))
    return ttfts[math.ceil(0.95 * SLOTS) - 1]


def test_the_gateway_is_ready_once_its_engine_is_warm_and_the_first_burst_is_like_the_next(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    """What the machine does besides may spoil some bursts, so the steady ones are several."""
    engine = engines["lowlatency"]
    before = engine.metric("vllm:generation_tokens_total")
    settings = SMALL | {"TOKENLANE_LANES__LOWLATENCY__ENGINES": json.dumps([engine.url])}
    seen: set[str] = set()
    with started_gateway(settings, tmp_path) as (url, process, log):
        deadline = time.monotonic() + TO_START
        while not answers(f"{url}/ready"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            assert "warm-up ended" not in log.read_text() or not reasons(url)
            seen.update(reasons(url))
            time.sleep(0.02)
        assert any(f"lane lowlatency is warming: {ENGINE}" in reason for reason in seen), seen
        ended = [line for line in log.read_text().splitlines() if "warm-up ended" in line]
        assert len(ended) == 1
        assert "outcome=steady" in ended[0]
        assert engine.metric("vllm:generation_tokens_total") - before >= 2 * 8 * (1 + 2 + 4)
        with client_of(url) as client:
            first = burst(client)
            steady = [burst(client) for _ in range(5)]
        assert first <= 1.5 * max(steady)
