"""What a lane's requests get for fields that they do not have, as the engine sees it."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.sim import SimEngine
from config.sampling import SamplingSettings
from config.settings import Settings
from gateway.endpoints import SAMPLING
from tests.fakes.running_gateway import asked, gateway_on_sim
from tests.faults.asking import until

CHAT: dict[str, Any] = {"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}]}
LANES = {"lowlatency": {"defaults": {"temperature": 0, "top_p": 0.95, "top_k": 20}}}


def bodies(engine: SimEngine) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in asked(engine) if request.method == "POST"]


async def test_an_engine_gets_the_defaults_of_the_lane_and_what_the_client_says_is_stronger() -> None:
    async with gateway_on_sim(lanes=LANES) as (gateway, engine):
        said = {"temperature": 0.7, "top_p": None}
        for more in ({}, said, {"stream": True}):
            assert (await gateway.http.post("/v1/chat/completions", json=CHAT | more)).status_code == 200
        plain, own, stream = bodies(engine)
        assert plain == CHAT | {"temperature": 0.0, "top_p": 0.95, "top_k": 20}
        assert own == CHAT | said | {"top_k": 20}
        assert stream == plain | {"stream": True}


async def test_another_lane_has_its_own() -> None:
    async with gateway_on_sim(lanes=LANES) as (gateway, engine):
        answer = await gateway.http.post("/v1/chat/completions", json=CHAT, headers={"x-tokenlane-lane": "batch"})
        assert answer.status_code == 200
        assert bodies(engine) == [CHAT]


async def test_lines_of_a_batch_get_the_defaults_of_the_batch_lane(tmp_path: Path) -> None:
    lanes = {"batch": {"defaults": {"seed": 7}}}
    async with gateway_on_sim(lanes=lanes, batch={"data_dir": str(tmp_path), "poll_s": 0.05}) as (gateway, engine):
        line = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
        file = await gateway.openai.files.create(file=("in.jsonl", json.dumps(line).encode()), purpose="batch")
        await gateway.openai.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        await until(lambda: bodies(engine))
        assert bodies(engine)[0]["seed"] == 7


def test_the_settings_have_the_fields_that_endpoints_have() -> None:
    assert set(SamplingSettings.model_fields) == SAMPLING


@pytest.mark.parametrize(
    "defaults", [{"temprature": 0}, {"temperature": -1}, {"top_p": 0}, {"temperature": [0]}, {"max_tokens": 5}]
)
def test_only_fields_that_there_are_with_values_that_an_engine_takes(defaults: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"lanes\.lowlatency\.defaults"):
        Settings.model_validate({"lanes": {"lowlatency": {"defaults": defaults}}})
