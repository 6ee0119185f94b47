"""Many outcomes as one cell of a result."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.bench import result
from app.bench.load import Load
from app.bench.outcome import OK, Outcome
from app.bench.quantiles import spread
from app.bench.result import rounded


@dataclass(slots=True)
class Record:
    """What is gathered while a cell is measured. Times in seconds.

    Args:
        load: of the cell.
        outcomes: of measured requests.
        warmups: of those before.
        seconds: from the first request to the end of the last one.
        cpu: seconds of CPU of this process in that time.
        lags: how late the event loop called.
        interrupted: it was stopped before its end; requests that ran then are in no figure.
    """

    load: Load
    outcomes: list[Outcome] = field(default_factory=list)
    warmups: list[Outcome] = field(default_factory=list)
    seconds: float = 0
    cpu: float = 0
    lags: list[float] = field(default_factory=list)
    interrupted: bool = False


def cell(record: Record) -> result.Cell:
    """What the record comes to. Rates are those of requests that ended well, over the whole time, its tail included."""
    good = [one for one in record.outcomes if one.kind == OK]
    bad = [one for one in record.outcomes if one.kind != OK]
    tokens, events = sum(one.tokens for one in good), sum(one.events for one in good)
    shown = sum(len(one.gaps) + 1 for one in good)
    prompts = [one.prompt_tokens for one in good if one.prompt_tokens is not None]
    return {
        "load": record.load.label,
        "concurrency": record.load.concurrency,
        "rate": record.load.rate,
        "requests": len(record.outcomes),
        "ok": len(good),
        "errors": dict(Counter(one.kind for one in bad).most_common()),
        "details": {one.kind: one.detail for one in reversed(bad) if one.detail},
        "seconds": rounded(record.seconds),
        "requests_per_s": _rate(len(good), record.seconds),
        "tokens_per_s": _rate(tokens, record.seconds),
        "events_per_s": _rate(events, record.seconds),
        "tokens_per_event": rounded(tokens / shown) if shown else None,
        "tokens_by_usage": bool(good) and all(one.by_usage for one in good),
        "prompt_tokens": rounded(sum(prompts) / len(prompts)) if prompts else None,
        "ttft_ms": _ms(one.ttft for one in good),
        "ttft_ms_by_prompt": _by_prompt(good),
        "itl_ms": _ms(gap for one in good for gap in one.gaps),
        "tpot_ms": _ms(one.tpot for one in good),
        "total_ms": _ms(one.ended - one.began for one in good),
        "retries": sum(one.tries - 1 for one in record.outcomes),
        "waited_s": rounded(sum(one.waited for one in record.outcomes)),
        "refusals_with_retry_after": sum(one.retry_after is not None for one in record.outcomes),
        "warmup": len(record.warmups),
        "warmup_errors": sum(one.kind != OK for one in record.warmups),
        "client": _health(record),
        "interrupted": record.interrupted,
    }


def _health(record: Record) -> result.Health:
    events = sum(one.events for one in record.outcomes)
    late = [one.late for one in record.outcomes] if record.load.rate is not None else []
    return {
        "cpu_share": _rate(record.cpu, record.seconds),
        "cpu_us_per_event": rounded(record.cpu / events * 1e6) if events else None,
        "lag_ms": _ms(record.lags),
        "late_ms": _ms(late),
    }


def _by_prompt(good: Sequence[Outcome]) -> dict[str, result.Spread]:
    found = {length: _ms(one.ttft for one in good if one.prompt == length) for length in {one.prompt for one in good}}
    return {str(length): told for length, told in sorted(found.items()) if told is not None}


def _ms(seconds: Iterable[float | None]) -> result.Spread | None:
    found = spread(value * 1000 for value in seconds if value is not None)
    if found is None:
        return None
    return {
        "n": found.n,
        "mean": rounded(found.mean),
        "p50": rounded(found.p50),
        "p95": rounded(found.p95),
        "p99": rounded(found.p99),
        "max": rounded(found.most),
        "curve": [rounded(point) for point in found.curve],
    }


def _rate(number: float, seconds: float) -> float:
    return rounded(number / seconds) if seconds > 0 else 0.0
