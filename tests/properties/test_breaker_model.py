"""The breaker against a model that keeps the whole history and decides from it anew each time."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.breaker import Breaker, EngineOutcome

PROBES = ("probe succeeds", "probe fails")
Entry = tuple[str, float, int]


@dataclass
class Model:
    """Every event since the state last changed, with its time."""

    threshold: int
    in_service: bool
    outages: int = 0
    since: list[tuple[str, float]] = field(default_factory=list)

    def take(self, what: str, now: float, epoch: int) -> None:
        if what in PROBES:
            self.probe(what, now)
        elif self.in_service and epoch == self.outages and what != "neutral":
            self.since.append((what, now))
            if self.has_failed(now):
                self.in_service, self.outages, self.since = False, self.outages + 1, [("probe fails", now)]

    def probe(self, what: str, now: float) -> None:
        if self.in_service:
            return
        if what == "probe succeeds":
            self.in_service, self.since = True, [("success", now)]
        else:
            self.since.append((what, now))

    def has_failed(self, now: float) -> bool:
        last = [what for what, _ in self.since][-self.threshold :]
        in_a_row = len(last) == self.threshold and "success" not in last
        answered = any(what == "success" and now - at <= 2 for what, at in self.since)
        return in_a_row or (last[-1] == "unreachable" and not answered)

    def probe_at(self, now: float) -> float | None:
        if self.in_service:
            return None
        if not self.since:
            return now
        return max(now, self.since[-1][1] + min(2.0 ** (len(self.since) - 1), 30.0))


events = st.lists(
    st.tuples(
        st.sampled_from([*EngineOutcome, *EngineOutcome, *PROBES]),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5, 20.0]),
        st.integers(0, 1),
    ),
    max_size=60,
)


@settings(max_examples=500, deadline=None)
@given(events, st.integers(1, 4), st.booleans())
def test_whatever_happens_the_breaker_does_what_the_model_does(
    events: list[Entry], threshold: int, unproven: bool
) -> None:
    breaker, model, now = Breaker(threshold=threshold, unproven=unproven), Model(threshold, not unproven), 0.0
    for what, passed, age in events:
        now += passed
        epoch = breaker.epoch - age
        model.take(what, now, epoch)
        if what == "probe succeeds":
            breaker.probe_succeeded(now)
        elif what == "probe fails":
            breaker.probe_failed(now)
        else:
            breaker.record(EngineOutcome(what), now, epoch=epoch)
        assert breaker.closed == model.in_service
        assert breaker.epoch == model.outages
        assert breaker.probe_at(now) == model.probe_at(now)
