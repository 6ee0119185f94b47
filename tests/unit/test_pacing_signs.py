"""What the pacing sees of the interactive lane: each first token once, as early as it is known."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from gateway.admission.queue import GateStatistics, LaneStatistics
from gateway.pacing.signs import SignWatch
from gateway.pacing.streams import Sample
from gateway.pacing.wholes import Answer
from gateway.telemetry import Outcome, RequestEnded, RequestRetried, StreamStats


class FakeGate:
    """Counts as they are told."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.running = self.waiting = 0

    def statistics(self) -> GateStatistics:
        return GateStatistics(32, {self.lane: LaneStatistics(self.running, self.waiting)})


class FakeGateway:
    """Two lanes and the requests that run, with a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.gates = {name: FakeGate(name) for name in ("lowlatency", "batch")}
        self.lanes = {name: SimpleNamespace(gate=gate) for name, gate in self.gates.items()}
        self.live: set[Any] = set()
        self.watch = SignWatch(self, "lowlatency", "batch", lambda: self.now)  # type: ignore[arg-type]

    def stream(self, came: float, lane: str = "lowlatency", *, stream: bool = True) -> "FakePassage":
        passage = FakePassage(self, came, lane, stream)
        self.live.add(passage)
        return passage

    def end(self, passage: "FakePassage", ttft: float | None) -> None:
        duration, lane = self.now - passage.came, passage.lane
        passage.report = RequestEnded("/", lane, "e", True, 200, Outcome.OK, "", duration, 0.0, ttft, None)
        self.watch(passage.report)
        self.live.discard(passage)


class FakePassage:
    """A request as it is seen from outside."""

    def __init__(self, gateway: FakeGateway, came: float, lane: str, stream: bool) -> None:
        self._gateway = gateway
        self.came, self.lane, self.call = came, lane, SimpleNamespace(stream=stream)
        self.queued = self.engine_wait = 0.0
        self.report: RequestEnded | None = None

    @property
    def elapsed(self) -> float:
        return self._gateway.now - self.came


def seen(gateway: FakeGateway) -> Iterator[tuple[float, float]]:
    return ((round(s.came, 6), round(s.ttft, 6)) for s in gateway.watch.look().started)


def test_a_first_token_is_seen_while_the_stream_still_runs_and_only_once() -> None:
    gateway = FakeGateway()
    passage = gateway.stream(came=99.0)
    assert list(seen(gateway)) == []
    passage.queued, passage.engine_wait = 0.1, 0.2
    assert list(seen(gateway)) == [(99.0, 0.3)]
    assert list(seen(gateway)) == []
    gateway.now = 130.0
    gateway.end(passage, ttft=0.31)
    assert list(seen(gateway)) == []


def test_a_stream_that_begins_and_ends_between_two_looks_is_seen_at_its_end() -> None:
    gateway = FakeGateway()
    gateway.watch.look()
    gateway.end(gateway.stream(came=99.5), ttft=0.2)
    assert list(seen(gateway)) == [(99.5, 0.2)]


def test_a_stream_without_a_first_token_is_a_wait() -> None:
    gateway = FakeGateway()
    gateway.stream(came=97.0)
    gateway.stream(came=99.0)
    assert gateway.watch.look().longest_wait == 3.0
    gateway.now = 101.0
    assert gateway.watch.look().longest_wait == 4.0


def test_other_lanes_whole_answers_and_failures_say_nothing() -> None:
    gateway = FakeGateway()
    gateway.stream(came=90.0, lane="batch").engine_wait = 5.0
    gateway.stream(came=90.0, stream=False)
    gateway.end(gateway.stream(came=90.0, lane="batch"), ttft=1.0)
    gateway.end(gateway.stream(came=90.0), ttft=None)
    gateway.watch(RequestRetried("lowlatency", "e", "stale"))
    signs = gateway.watch.look()
    assert (list(signs.started), signs.longest_wait) == ([], 0.0)


def a_whole_answer(gateway: FakeGateway, tokens: int | None, *, duration: float = 2.0, **more: Any) -> None:
    stats = None if tokens is None else StreamStats(completion_tokens=tokens)
    values: dict[str, Any] = {"lane": "lowlatency", "outcome": Outcome.OK, "queued": 0.4} | more
    gateway.watch(
        RequestEnded(
            "/", values["lane"], "e", False, 200, values["outcome"], "", duration, values["queued"], None, stats
        )
    )


def test_a_whole_answer_tells_its_time_a_token_without_the_queue_once() -> None:
    gateway = FakeGateway()
    a_whole_answer(gateway, 16)
    assert gateway.watch.look().answered == (Answer(98.0, 0.1),)
    assert gateway.watch.look().answered == ()


def test_an_answer_of_few_tokens_or_none_another_lanes_and_a_failure_tell_nothing() -> None:
    gateway = FakeGateway()
    for tokens in (None, 0, 7):
        a_whole_answer(gateway, tokens)
    a_whole_answer(gateway, 99, lane="batch")
    a_whole_answer(gateway, 99, outcome=Outcome.ENGINE_ERROR)
    assert gateway.watch.look().answered == ()


def test_the_queues_are_seen_as_they_are() -> None:
    gateway = FakeGateway()
    gateway.gates["lowlatency"].running, gateway.gates["lowlatency"].waiting = 7, 2
    gateway.gates["batch"].waiting = 1
    signs = gateway.watch.look()
    assert (signs.running, signs.waiting, signs.crowded) == (7, 2, True)


def test_samples_come_in_the_order_of_their_requests() -> None:
    gateway = FakeGateway()
    gateway.end(gateway.stream(came=99.5), ttft=0.2)
    gateway.stream(came=98.0).engine_wait = 1.0
    assert gateway.watch.look().started == [Sample(98.0, 1.0), Sample(99.5, 0.2)]
