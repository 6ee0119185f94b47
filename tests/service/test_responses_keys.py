"""Stored responses belong to the key that made them, whichever gateway is asked and whatever it remembers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from app.sim import SimEngine, SimSettings
from tests.fakes.keys import kept_in, new_key
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim, running_gateway, settings_for
from tests.service.test_endpoints_responses import two_engines

MODEL = "gpt-oss-20b"
QUICK = SimSettings(ttft_ms=1, itl_ms=0.5, tokens=12)


@asynccontextmanager
async def two_keys(folder: Path, **changes: Any) -> AsyncIterator[tuple[AsyncOpenAI, AsyncOpenAI, SimEngine]]:
    """The official client with each of two keys, and the engine."""
    (_, one), (_, two) = await new_key(folder, "one"), await new_key(folder, "two")
    async with gateway_on_sim(QUICK, **kept_in(folder), **changes) as (gateway, engine):
        yield gateway.openai.with_options(api_key=one), gateway.openai.with_options(api_key=two), engine


def of(gateway: RunningGateway, secret: str) -> AsyncOpenAI:
    return gateway.openai.with_options(api_key=secret)


def of_responses(engine: SimEngine) -> int:
    """How often the engine was asked for a response, by its id or for a new one."""
    return sum(request.path.startswith("/v1/responses") for request in engine.requests)


async def is_not_there(client: AsyncOpenAI, response_id: str) -> None:
    """Whatever is asked of the response is a 404, in the words of one that no engine keeps."""
    own = client.responses
    for ask in (
        own.retrieve(response_id),
        own.retrieve(response_id, stream=True),
        own.cancel(response_id),
        own.create(model=MODEL, input="on", previous_response_id=response_id),
        own.create(model=MODEL, input="on", previous_response_id=response_id, stream=True),
    ):
        with pytest.raises(openai.NotFoundError) as error:
            await ask
        assert error.value.code == "response_not_found"


async def test_another_key_finds_nothing(tmp_path: Path) -> None:
    """Cases H12, H47."""
    async with two_keys(tmp_path) as (one, two, engine):
        for kept in (
            await one.responses.create(model=MODEL, input="hi"),
            await one.responses.create(model=MODEL, input="hi", background=True),
        ):
            before = of_responses(engine)
            await is_not_there(two, kept.id)
            assert of_responses(engine) == before, "no engine is asked"
            assert (await one.responses.retrieve(kept.id)).id == kept.id
            on = await one.responses.create(model=MODEL, input="on", previous_response_id=kept.id)
            assert on.previous_response_id == kept.id


async def test_a_response_that_was_streamed_belongs_to_its_key_too(tmp_path: Path) -> None:
    async with two_keys(tmp_path) as (one, two, _):
        events = [event async for event in await one.responses.create(model=MODEL, input="hi", stream=True)]
        assert events[-1].type == "response.completed"
        await is_not_there(two, events[-1].response.id)
        again = [event async for event in await one.responses.retrieve(events[-1].response.id, stream=True)]
        assert again[-1].type == "response.completed"


async def test_a_gateway_that_has_just_started_knows_whose_a_response_is(tmp_path: Path) -> None:
    (_, one), (_, two) = await new_key(tmp_path, "one"), await new_key(tmp_path, "two")
    async with SimEngine(QUICK) as engine:
        settings = settings_for(engine, **kept_in(tmp_path))
        async with running_gateway(settings) as first:
            kept = await of(first, one).responses.create(model=MODEL, input="hi")
        async with running_gateway(settings) as second:
            await is_not_there(of(second, two), kept.id)
            assert (await of(second, one).responses.retrieve(kept.id)).id == kept.id


async def test_no_key_can_choose_the_id_of_its_response(tmp_path: Path) -> None:
    """Else one could take another's place, and ask for what was there before."""
    async with two_keys(tmp_path) as (one, two, _):
        kept = await one.responses.create(model=MODEL, input="hi")
        stolen = await two.responses.create(model=MODEL, input="hi", extra_body={"request_id": kept.id})
        assert stolen.id != kept.id
        await is_not_there(two, kept.id)


async def test_what_was_made_while_nobody_needed_a_key_belongs_to_no_key(tmp_path: Path) -> None:
    async with gateway_on_sim(QUICK, **kept_in(tmp_path)) as (gateway, _):
        kept = await gateway.openai.responses.create(model=MODEL, input="hi")
        _, secret = await new_key(tmp_path)
        async with asyncio.timeout(10):
            while gateway.service.keys.ring.open:  # noqa: ASYNC110 - until it has looked for keys
                await asyncio.sleep(0.01)
        await is_not_there(of(gateway, secret), kept.id)


async def test_a_response_is_not_gone_on_from_in_a_lane_that_its_key_may_not_use(tmp_path: Path) -> None:
    """The key's own response lies on an engine that has moved to another lane since."""
    _, secret = await new_key(tmp_path, lanes=("batch",))
    async with two_engines(**kept_in(tmp_path)) as (gateway, quick, slow):
        client = of(gateway, secret)
        kept = await client.responses.create(model=MODEL, input="hi")
        elsewhere = gateway.service.gateway.lanes["lowlatency"].pool.engines[0]
        gateway.service.gateway.stored.remember(kept.id, elsewhere)
        for stream in (False, True):
            with pytest.raises(openai.NotFoundError):
                await client.responses.create(model=MODEL, input="on", previous_response_id=kept.id, stream=stream)
        assert (of_responses(quick), of_responses(slow)) == (0, 1)


async def test_a_lane_that_a_keys_lane_overflows_into_is_one_that_it_may_use(tmp_path: Path) -> None:
    _, secret = await new_key(tmp_path, lanes=("lowlatency",))
    lanes = {"lowlatency": {"overflow": "batch"}}
    async with two_engines(**kept_in(tmp_path), lanes=lanes) as (gateway, quick, slow):
        client = of(gateway, secret)
        kept = await client.responses.create(model=MODEL, input="hi")
        other = gateway.service.gateway.lanes["batch"].pool.engines[0]
        gateway.service.gateway.stored.remember(kept.id, other)
        with pytest.raises(openai.NotFoundError):  # of the engine: it lies elsewhere in truth
            await client.responses.create(model=MODEL, input="on", previous_response_id=kept.id)
        assert (of_responses(quick), of_responses(slow)) == (1, 1)
