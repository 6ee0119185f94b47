"""Gateways: real `tokenlane serve` processes with settings of their own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.proof.process import TOKENLANE, Process, free_port, own_variables, running

READY = 240
"""Seconds that a gateway may take until it is ready: it may warm its engines first."""
PATIENT = {"queue": 4096, "patience_s": 600}
"""Of a lane in which a closed loop of users waits for as long as it takes."""

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that is ready."""

    url: str
    process: Process


@contextmanager
def serving(settings: Settings, *, log: Path, cpus: Sequence[int] = ()) -> Iterator[Gateway]:
    """A gateway with `settings` (path -> value) and no others, for as long as the block lasts; raises ProcessFailed."""
    port = free_port()
    quiet = {
        "server.access_log": "false",
        "server.log_level": "warning",
        "server.shutdown_grace_s": 1,
        "warmup.mode": "off",  # what is in front of has been warmed, or is to be cold
    }
    given = [word for path, value in {**quiet, **settings}.items() for word in ("--set", f"{path}={value}")]
    command = [*TOKENLANE, "serve", "--port", str(port), *given]
    url = f"http://127.0.0.1:{port}"
    with running("the gateway", command, log=log, variables=own_variables(), cpus=cpus) as process:
        process.until_ready(f"{url}/ready", READY)
        yield Gateway(url, process)


def split(lowlatency: str, batch: str, slots: Mapping[str, int]) -> Settings:
    """An engine a lane (the same one twice is allowed); `slots` by lane."""
    urls = {"lowlatency": lowlatency, "batch": batch}
    found: dict[str, object] = {}
    for lane, url in urls.items():
        found[f"lanes.{lane}.engines"] = json.dumps([{"url": url, "name": f"{lane}-0"}])
        found[f"lanes.{lane}.pool_size"] = slots[lane]
        found |= {f"lanes.{lane}.{name}": value for name, value in PATIENT.items()}
    return found


PRIORITIES: Settings = {"lanes.lowlatency.priority": 0, "lanes.batch.priority": 1}
"""For an engine with `--scheduling-policy priority`."""

UNPACED: Settings = {"single.pace": "false"}
"""As many batch requests at once as there are slots, whatever chat says."""


def single(engine: str, slots: int, reserve: int) -> Settings:
    """Both lanes on one engine, `reserve` of its slots kept for the low-latency lane."""
    return {
        "topology": "single",
        "single.reserve": reserve,
        "lanes.lowlatency.engines": json.dumps([{"url": engine}]),
        "lanes.lowlatency.pool_size": slots,
        **{f"lanes.{lane}.{name}": value for lane in ("lowlatency", "batch") for name, value in PATIENT.items()},
    }
