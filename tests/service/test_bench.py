"""The measuring client on real sockets: what was set is what it finds, and nothing that a server does makes it fail."""

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.bench.client import MOST_WAIT, Client
from app.bench.connection import Patience
from app.bench.load import Load
from app.bench.outcome import Outcome
from app.bench.progress import Progress
from app.bench.result import Cell, Comparison, Run
from app.bench.search import Search
from app.bench.session import NoModel, Plan, Session, compare, find, model_of, run
from app.bench.target import Target, target
from app.bench.workload import Workload
from app.sim import SimEngine, SimSettings
from tests.fakes.loops import over_both_loops
from tests.fakes.running_gateway import gateway_on_sim
from tests.fakes.scripted_engine import (
    Again,
    Fin,
    Read,
    Reset,
    ScriptedEngine,
    Send,
    Sleep,
    Step,
    chunk,
    ok,
    stream_head,
)
from tests.traces.script import DONE, content, finish, role, usage_only, wire

ROOT = Path(__file__).parents[2]
ANSWER = stream_head() + chunk(wire(role(), content("a"), finish(), usage_only(3, 1), DONE)) + chunk(b"")
BUSY = ok(b"{}", b"Retry-After: 7", status=b"429 Too Many Requests")


def plan(*loads: Load, patience: Patience = Patience(), retries: int = 0, **work: Any) -> Plan:  # noqa: B008
    return Plan(loads, Workload("gpt-oss-20b", **work), {}, patience, retries)


def session() -> Session:
    return Session(Progress(StringIO()))


async def one_cell(where: Target, load: Load, **changes: Any) -> Cell:
    [told] = (await run(session(), where, plan(load, **changes)))["cells"]
    return told


def ms(told: Cell, name: str) -> dict[str, float]:
    spread: dict[str, float] = told[name]  # type: ignore[literal-required]
    return spread


@over_both_loops
async def test_it_finds_the_pace_that_was_set() -> None:
    async with SimEngine(SimSettings(ttft_ms=80, itl_ms=10)) as engine:
        told = await one_cell(target(engine.url), Load(4, None, 12, warmup=4), max_tokens=20, prompt_tokens=(16, 40))
    assert (told["ok"], told["errors"], told["warmup"]) == (12, {}, 4)
    assert 80 <= ms(told, "ttft_ms")["p50"] < 160
    assert 7 < ms(told, "itl_ms")["p50"] < 20
    assert 9 < ms(told, "tpot_ms")["p50"] < 20
    assert told["tokens_by_usage"]
    assert told["tokens_per_s"] == pytest.approx(12 * 20 / told["seconds"], rel=0.01)
    assert set(told["ttft_ms_by_prompt"]) == {"16", "40"}


async def test_a_gateway_that_gathers_tokens_has_fewer_events_and_the_same_tpot() -> None:
    async with gateway_on_sim(SimSettings(ttft_ms=20, itl_ms=4)) as (gateway, engine):
        await gateway.is_ready()
        direct = await one_cell(target(engine.url), Load(2, None, 6), max_tokens=60)
        through = await one_cell(target(gateway.url), Load(2, None, 6), max_tokens=60)
    assert (direct["ok"], through["ok"]) == (6, 6)
    assert direct["tokens_per_event"] is not None
    assert through["tokens_per_event"] is not None
    assert through["tokens_per_event"] > 1.5 * direct["tokens_per_event"]
    assert ms(through, "tpot_ms")["p50"] < 1.5 * ms(direct, "tpot_ms")["p50"]


async def test_an_open_loop_sends_at_its_rate_whatever_the_server_does() -> None:
    async with SimEngine(SimSettings(ttft_ms=400, itl_ms=1)) as engine:
        told = await one_cell(target(engine.url), Load(rate=60, requests=30), max_tokens=2)
    assert told["ok"] == 30
    assert told["seconds"] < 6  # one after another they would take 12
    assert told["client"]["late_ms"] is not None


async def test_a_duration_ends_the_asking_and_not_the_answers() -> None:
    async with SimEngine(SimSettings(ttft_ms=100, itl_ms=1)) as engine:
        told = await one_cell(target(engine.url), Load(2, duration=0.25), max_tokens=4)
    assert told["ok"] == told["requests"] >= 2


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_the_lane_is_asked_for_at_either_endpoint(endpoint: str) -> None:
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=1)) as engine:
        await one_cell(target(engine.url, lane="batch"), Load(1, None, 5), max_tokens=2, endpoint=endpoint)
        assert {request.headers["x-tokenlane-lane"] for request in engine.requests} == {"batch"}
    assert len(engine.requests) == 5


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("status:429;retry-after=1", "http 429"),
        ("status:500", "http 500"),
        ("cut@2", "cut"),
        ("cut_event@2", "malformed|cut"),
        ("reset@2", "cut"),
        ("stall@2", "stalled"),
        ("silence_head", "silent"),
        ("close_before_head", "cut"),
        ("error_event@2", "error event"),
        ("error_event_open@2", "error event"),
        ("garbage@2", "malformed"),
        ("bad_http", "malformed"),
        ("no_done", "no [DONE]"),
        ("no_finish", "cut"),
        ("only_role", "cut"),
    ],
)
async def test_every_fault_is_counted_by_its_kind(fault: str, kind: str) -> None:
    patience = Patience(first=0.3, gap=0.3)
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=1, tokens=6, fault=fault)) as engine:
        told = await one_cell(target(engine.url), Load(2, None, 4), patience=patience, max_tokens=6)
    assert (told["ok"], sum(told["errors"].values())) == (0, 4)
    assert set(told["errors"]) <= set(kind.split("|"))


@pytest.mark.parametrize("fault", ["comments", "crlf", "one_byte", "double_finish"])
async def test_an_odd_answer_that_is_whole_is_no_error(fault: str) -> None:
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=1, fault=fault)) as engine:
        told = await one_cell(target(engine.url), Load(1, None, 3), max_tokens=6)
    assert (told["ok"], told["errors"]) == (3, {})


async def test_a_server_that_is_not_there_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = await one_cell(target(f"http://127.0.0.1:{port}"), Load(2, None, 4))
    assert told["errors"] == {"connect": 4}
    assert told["details"]["connect"]


async def asked(engine: ScriptedEngine, *, times: int = 1, retries: int = 0) -> tuple[list[Outcome], list[float]]:
    """Outcomes of requests one after another, and the pauses that were made; a pause takes no time."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async with Client(target(engine.url), Patience(first=2, gap=2), retries=retries, pause=pause) as client:
        return [await client.ask("/chat/completions", b"{}") for _ in range(times)], pauses


def kinds(outcomes: Sequence[Outcome]) -> list[str]:
    return [outcome.kind for outcome in outcomes]


async def test_retry_after_is_followed_as_often_as_was_asked() -> None:
    async with ScriptedEngine([Read(), Send(BUSY), Read(), Send(BUSY), Read(), Send(ANSWER)]) as engine:
        outcomes, pauses = await asked(engine, retries=2)
    assert (kinds(outcomes), pauses) == (["ok"], [7, 7])
    assert (outcomes[0].tries, outcomes[0].waited) == (3, 14)


async def test_without_retries_a_refusal_is_counted_with_its_time() -> None:
    async with ScriptedEngine([Read(), Send(BUSY), Again()]) as engine:
        outcomes, pauses = await asked(engine)
    assert (kinds(outcomes), outcomes[0].retry_after, pauses) == (["http 429"], 7, [])


async def test_an_unreasonable_wait_is_cut_short() -> None:
    busy = BUSY.replace(b"Retry-After: 7", b"Retry-After: 80000")
    async with ScriptedEngine([Read(), Send(busy), Read(), Send(ANSWER)]) as engine:
        assert (await asked(engine, retries=1))[1] == [MOST_WAIT]


async def test_a_connection_is_used_again() -> None:
    async with ScriptedEngine([Read(), Send(ANSWER), Again()]) as engine:
        outcomes, _ = await asked(engine, times=3)
    assert kinds(outcomes) == ["ok", "ok", "ok"]
    assert len(engine.peers) == 1


@pytest.mark.parametrize("end", [Fin(), Reset()])
async def test_a_connection_that_was_closed_while_idle_is_no_error(end: Fin | Reset) -> None:
    once: list[Step] = [Read(), Send(ANSWER), Read(), end]  # the second request meets the close
    async with ScriptedEngine(once, [Read(), Send(ANSWER)]) as engine:
        outcomes, _ = await asked(engine, times=2)
    assert kinds(outcomes) == ["ok", "ok"]
    assert len(engine.peers) == 2


async def test_time_is_stamped_when_bytes_arrive() -> None:
    parts = [
        stream_head() + chunk(wire(role())),
        chunk(wire(content("a"))),
        chunk(wire(content("b"), finish(), DONE)) + chunk(b""),
    ]
    script: list[Step] = [Read(), Send(parts[0]), Sleep(0.1), Send(parts[1]), Sleep(0.2), Send(parts[2])]
    async with ScriptedEngine(script) as engine:
        [outcome], _ = await asked(engine)
    assert outcome.ttft is not None
    assert 0.1 <= outcome.ttft < 0.2
    assert 0.19 <= outcome.gaps[0] < 0.3


async def test_the_first_model_is_asked_for_and_a_server_without_one_is_told() -> None:
    async with SimEngine(SimSettings(model="a-model")) as engine:
        assert await model_of(target(engine.url)) == "a-model"
    async with ScriptedEngine([Read(), Send(ok(b'{"data":[]}'))]) as engine:
        with pytest.raises(NoModel, match="names no model"):
            await model_of(target(engine.url))


async def test_the_search_ends_where_first_tokens_become_slow() -> None:
    """Three run at once and each takes about 60 ms, so the fourth waits for the first to end."""
    async with SimEngine(SimSettings(ttft_ms=20, itl_ms=10, max_num_seqs=3)) as engine:
        work = plan(Load(1, None, 12), max_tokens=5)
        result = await find(session(), target(engine.url), work, Search(most=16), limit_ms=50)
    assert result["search"] is not None
    assert 2 <= result["search"]["found"] <= 3
    assert len(result["cells"]) <= 10


async def test_two_lanes_are_compared_in_turns() -> None:
    async with SimEngine(SimSettings(ttft_ms=20, itl_ms=1)) as engine:
        slow = target(engine.url, [("x-sim-ttft-ms", "60")])
        result: Comparison = await compare(
            session(), {"A": target(engine.url), "B": slow}, plan(Load(2, None, 4), max_tokens=3), rounds=2
        )
    assert [side for side, _ in result["cells"]] == list("ABBAABBA")
    ratio = result["rows"][0]["ratio"]
    assert ratio is not None
    assert 1.8 < ratio["median"] < 4
    assert result["sides"]["B"].endswith("x-sim-ttft-ms: ***")


async def test_a_comparison_asks_no_prompt_twice() -> None:
    async with SimEngine(SimSettings(ttft_ms=1, itl_ms=1)) as engine:
        one = target(engine.url)
        await compare(session(), {"A": one, "B": one}, plan(Load(1, None, 3, warmup=1), max_tokens=2), rounds=1)
    bodies = [request.body for request in engine.requests]
    assert len(set(bodies)) == len(bodies) == 16


async def was_asked(engine: SimEngine, times: int) -> None:
    """Waits until so many requests have come."""
    for _ in range(2000):
        if len(engine.requests) >= times:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(engine.requests)} requests came")


async def test_a_stop_ends_the_cell_and_all_after_it_and_hangs_up() -> None:
    async with SimEngine(SimSettings(ttft_ms=5, itl_ms=5)) as engine:
        stopped = session()
        work = plan(Load(2, None, 1000, warmup=0), Load(4, None, 4), max_tokens=4)
        measuring = asyncio.create_task(run(stopped, target(engine.url), work))
        await was_asked(engine, 6)
        stopped.stop()
        result: Run = await asyncio.wait_for(measuring, 5)
        await asyncio.wait_for(engine.settled(0), 5)
    [told] = result["cells"]
    assert result["interrupted"]
    assert told["interrupted"]
    assert told["ok"] == told["requests"] >= 2


async def test_ctrl_c_prints_what_was_measured_so_far(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    async with SimEngine(SimSettings(ttft_ms=2, itl_ms=2)) as engine:
        line = ["bench", "run", engine.url, "--requests", "100000", "--max-tokens", "4", "--json", str(file)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import sys; from app.cli import main; sys.exit(main())",
            *line,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await was_asked(engine, 10)
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 130
    assert b"| 1 user (interrupted) |" in out
    assert b"Traceback" not in err
    result = orjson.loads(file.read_bytes())
    assert result["cells"][0]["ok"] >= 5
    assert result["facts"]["command"].startswith("tokenlane bench run")
