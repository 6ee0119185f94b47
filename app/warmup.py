"""The warm-up of engines as the settings have it, and its lines in the log."""

from collections.abc import Mapping

import structlog

from config.settings import Settings
from gateway.lane import Lane
from gateway.telemetry import Observer, TelemetryEvent, WarmUpBurst, WarmUpEnded, WarmUpOutcome
from gateway.upstream.client import EngineClient
from gateway.warmup import Extent
from gateway.warmup.engines import WarmUps

log = structlog.get_logger("tokenlane")


def warm_ups(settings: Settings, lanes: Mapping[str, Lane], client: EngineClient, observer: Observer) -> WarmUps:
    """What warms the engines of these lanes."""
    warmup = settings.warmup
    extent = Extent(warmup.concurrency, warmup.prompt_tokens, warmup.longest_prompt)
    return WarmUps(client, largest(settings, lanes), extent=extent, budget=warmup.max_s, observer=observer)


def largest(settings: Settings, lanes: Mapping[str, Lane]) -> dict[str, int]:
    """Requests at once that clients may send to each address; simulated engines are not there, they are always warm."""
    if settings.warmup.mode == "off":
        return {}
    sequences = {e.url: e.max_num_seqs for lane in settings.lanes.values() for e in lane.engines if e.max_num_seqs}
    most: dict[str, int] = {}
    for lane in lanes.values():
        for engine in lane.pool.engines:
            if engine.kind == "vllm":
                slots = min(lane.slots, engine.pool_size, sequences.get(engine.url, engine.pool_size))
                most[engine.url] = max(slots, most.get(engine.url, 0))
    return most


def log_warm_up(event: TelemetryEvent) -> None:
    """The observer that writes what a warm-up does into the log."""
    match event:
        case WarmUpBurst():
            log.info(
                "warming",
                engine=event.engine,
                burst=f"{event.done}/{event.total}",
                concurrency=event.concurrency,
                prompt_tokens=event.prompt_tokens,
                ttft_ms=_ms(event.ttft),
            )
        case WarmUpEnded():
            well = event.outcome in {WarmUpOutcome.STEADY, WarmUpOutcome.SKIPPED} and not event.reason
            (log.info if well else log.warning)(
                "warm-up ended",
                engine=event.engine,
                outcome=str(event.outcome),
                seconds=round(event.seconds, 1),
                bursts=event.bursts,
                first_ttft_ms=_ms(event.first),
                steady_ttft_ms=_ms(event.steady),
                **({"reason": event.reason} if event.reason else {}),
            )
        case _:
            pass


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
