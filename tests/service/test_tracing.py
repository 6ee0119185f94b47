"""Traces: spans as a collector gets them, from a gateway that runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from app.sim import SimSettings
from tests.fakes.keys import chat
from tests.fakes.running_gateway import RunningGateway, asked, gateway_on_sim

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CLIENTS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Collector:
    """Takes what an exporter posts."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        request = ExportTraceServiceRequest.FromString(await reader.readexactly(length))
        self.spans += [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    made = Collector()
    async with await asyncio.start_server(made.take, "127.0.0.1", 0) as server:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces"


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


async def streamed(gateway: RunningGateway, **headers: str) -> None:
    answer = await gateway.http.post("/v1/chat/completions", json=chat(stream=True), headers=headers)
    assert answer.status_code == 200


async def test_a_clients_trace_goes_on_in_the_gateway_and_in_the_engine() -> None:
    async with collector() as (seen, url):
        async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=0.2, tokens=8), tracing={"endpoint": url}) as (
            gateway,
            engine,
        ):
            await streamed(gateway, **CLIENTS)
            await gateway.http.get("/health")
            (request,) = asked(engine)
        (span,) = seen.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert request.headers["traceparent"] == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert span.name == "POST /v1/chat/completions"
    found = attributes(span)
    assert found["http.response.status_code"] == 200
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.usage.output_tokens"] == 8
    assert found["tokenlane.lane"] == "lowlatency"
    assert 0 < found["tokenlane.ttft_s"] < 60
    assert "hi" not in {value for value in found.values() if isinstance(value, str)}, "no prompt"


async def test_a_failed_request_is_an_error_and_one_that_is_not_sampled_is_no_span() -> None:
    async with collector() as (seen, url):
        async with gateway_on_sim(
            SimSettings(ttft_ms=1, itl_ms=0.2, tokens=8), tracing={"endpoint": url, "ratio": 0}
        ) as (
            gateway,
            engine,
        ):
            await streamed(gateway)
            broken = await gateway.http.post(
                "/v1/chat/completions", json=chat(), headers={**CLIENTS, "x-sim-fault": "status:500"}
            )
            assert broken.status_code == 500
            flags = asked(engine)[0].headers["traceparent"].rpartition("-")[2]
            assert not int(flags, 16) & 1, "the engine is told not to trace it"
        (span,) = seen.spans
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert attributes(span)["error.type"] == "EngineAnswered"


async def test_without_a_collector_a_clients_trace_reaches_the_engine_as_it_came() -> None:
    async with gateway_on_sim() as (gateway, engine):
        await streamed(gateway, **CLIENTS)
        assert asked(engine)[0].headers["traceparent"] == CLIENTS["traceparent"]


async def test_a_collector_that_is_away_is_no_trouble(unused_tcp_port: int, caplog: pytest.LogCaptureFixture) -> None:
    async with gateway_on_sim(
        SimSettings(ttft_ms=1, itl_ms=0.2, tokens=8),
        tracing={"endpoint": f"http://127.0.0.1:{unused_tcp_port}/v1/traces"},
    ) as (gateway, _):
        await streamed(gateway)
