"""How many lines run at once: rules one by one, then a simulated engine that both lanes share."""

import itertools
import random
from dataclasses import dataclass, field
from statistics import median

import pytest

from gateway.batch.outage import Outage
from gateway.pacing.pace import LEARN_S, Pacing, Signs
from gateway.pacing.streams import Sample
from gateway.pacing.wholes import Answer
from tests.fakes.stepping_engine import SteppingEngine

IDLE = tuple(Sample(-10.0 + n, 0.1) for n in range(8))
"""Eight requests before any line ran: the baseline is 0.1 s."""


def well(now: float) -> Signs:
    """An interactive lane that is used, and well: four requests say so."""
    return Signs(running=4, started=[Sample(now - 0.2, 0.1)] * 4)


def grown(ceiling: int = 16, hold: float = 3.0) -> Pacing:
    """A pacing that knows its baseline and has grown to the ceiling beside interactive requests, at time 100."""
    pacing = Pacing(ceiling, hold=hold)
    pacing.look(0.0, Signs(started=IDLE), 0)
    for n in range(1, 101):
        pacing.look(float(n), well(float(n)), pacing.limit)
    assert pacing.limit == ceiling
    return pacing


def test_it_begins_with_half_of_the_time_and_grows_step_by_step_to_one_line_and_more() -> None:
    pacing = Pacing(4, step=1.0)
    pacing.look(-1.0, Signs(started=IDLE), 0)
    looks = [pacing.look(n / 2, well(n / 2), pacing.limit) for n in range(16)]
    assert looks == [1] * 8 + [2, 2, 3, 3, 4, 4, 4, 4]


def test_it_grows_slower_while_few_requests_tell_how_it_does() -> None:
    pacing = Pacing(8, step=1.0)
    pacing.look(0.0, Signs(started=IDLE), 0)
    for n in range(1, 5):
        pacing.look(float(n), well(float(n)), pacing.limit)
    looks = [pacing.look(n, Signs(running=1), pacing.limit) for n in (5.0, 9.0, 10.0, 15.0, 16.0)]
    assert looks == [1, 1, 2, 2, 3]


def test_it_grows_quicker_while_nobody_is_there() -> None:
    pacing = Pacing(8, quiet_step=0.25)
    assert [pacing.look(n / 4, Signs(), pacing.limit) for n in range(5)] == [2, 3, 4, 5, 6]


def test_what_has_grown_while_nobody_was_there_is_given_back_when_somebody_comes() -> None:
    pacing = Pacing(16)
    pacing.look(0.0, Signs(started=IDLE), 0)
    for n in range(1, 9):
        pacing.look(float(n), well(float(n)), pacing.limit)
    proven = pacing.limit
    for n in range(9, 60):
        pacing.look(float(n), Signs(), pacing.limit)
    assert (pacing.limit, proven) == (16, 5)
    assert pacing.look(60.0, Signs(running=1), 16) == pytest.approx(proven, abs=1)


def test_no_line_begins_while_a_stream_waits_for_its_first_token_but_not_for_long() -> None:
    """Case H67."""
    pacing, waits = grown(16), Signs(running=1, longest_wait=0.05)
    assert (pacing.look(101.0, waits, 12), pacing.paused) == (12, True)
    assert (pacing.look(101.1, waits, 11), pacing.paused) == (11, True)
    assert (pacing.look(101.2, waits, 11), pacing.paused) == (16, False)
    pacing.began(101.2)
    assert pacing.look(101.3, waits, 12) == 12
    assert pacing.look(101.4, Signs(running=1), 12) == 16


def test_below_one_line_it_rests_between_lines() -> None:
    """Case H67: an eighth of the time is what always goes on."""
    pacing = grown(16, hold=0.0)
    for n in range(101, 109):
        pacing.look(float(n), Signs(running=8, waiting=1), 1)
    pacing.began(110.0)
    looks = [pacing.look(now, Signs(running=8, waiting=1), busy) for now, busy in ((110.1, 1), (110.2, 0), (111.5, 0))]
    assert looks == [1, 0, 0]
    assert pacing.look(111.7, Signs(running=8, waiting=1), 0) == 1


def test_it_does_not_grow_beyond_what_is_used() -> None:
    pacing = Pacing(8)
    assert [pacing.look(float(now), Signs(), 1) for now in range(5)] == [2, 2, 2, 2, 2]


def test_it_does_not_grow_while_the_batch_lane_has_a_queue() -> None:
    pacing = Pacing(8)
    assert [pacing.look(float(now), Signs(crowded=True), 1) for now in range(5)] == [1] * 5


def test_a_queue_in_the_interactive_lane_halves_it() -> None:
    pacing = grown(16)
    assert pacing.look(101.0, Signs(running=8, waiting=1), 16) == 8


def test_it_is_halved_once_a_hold_however_often_it_looks() -> None:
    pacing = grown(16, hold=2.0)
    limits = [pacing.look(101 + n / 4, Signs(running=8, waiting=1), 16) for n in range(17)]
    assert limits == [8] * 8 + [4] * 8 + [2]


def test_it_does_not_grow_while_one_of_the_latest_streams_was_slow() -> None:
    pacing = grown(16, hold=0.0)
    pacing.look(101.0, Signs(running=4, waiting=1), 16)
    pacing.look(102.0, Signs(running=4, started=[Sample(101.5, 0.5)]), 8)
    assert [pacing.look(n, Signs(running=4), 8) for n in (110.0, 120.0, 220.0)] == [8, 8, 8]
    later = [Sample(220.0, 0.1)] * 8
    assert pacing.look(221.0, Signs(running=4, started=later), 8) == 9


def test_it_comes_back_slowly_to_the_number_that_harmed() -> None:
    pacing = grown(16, hold=0.0)
    pacing.look(101.0, Signs(running=4, waiting=1), 16)
    limits = [pacing.look(101.0 + n, well(101.0 + n), pacing.limit) for n in range(1, 14)]
    assert limits == [9, 10, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14]


def test_a_trickle_always_goes_on() -> None:
    """Case H67: batch work never ends up at nothing."""
    pacing = grown(16)
    for now in range(101, 200):
        pacing.look(float(now), Signs(running=32, waiting=64, longest_wait=30.0), pacing.limit)
    assert pacing.limit == 1


@pytest.mark.parametrize(("ttft", "limit"), [(0.1, 16), (0.114, 16), (0.117, 8), (0.5, 8)])
def test_a_median_above_the_baseline_halves_it(ttft: float, limit: int) -> None:
    pacing = grown(16)
    assert pacing.look(101.0, Signs(running=1, started=[Sample(100.5, ttft)] * 3), 16) == limit


def test_one_slow_request_is_no_sign() -> None:
    pacing = grown(16)
    ended = [Sample(100.5, 5.0), Sample(100.5, 0.1), Sample(100.5, 0.1)]
    assert pacing.look(101.0, Signs(running=1, started=ended), 16) == 16


def test_two_slow_requests_of_eight_are_a_sign_though_the_median_is_well() -> None:
    pacing = grown(16)
    ended = [Sample(100.5, ttft) for ttft in (0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)]
    assert pacing.look(101.0, Signs(running=1, started=ended), 16) == 16
    assert pacing.look(102.0, Signs(running=1, started=[Sample(101.5, 0.5)]), 16) == 8


def test_a_stream_that_waits_much_too_long_is_a_sign_before_it_ends() -> None:
    pacing = grown(16)
    assert pacing.look(101.0, Signs(running=1, longest_wait=0.2), 16) == 16
    assert pacing.look(102.0, Signs(running=1, longest_wait=0.22), 16) == 8


def test_requests_from_before_the_last_decrease_do_not_halve_it_again() -> None:
    pacing = grown(16, hold=1.0)
    assert pacing.look(101.0, Signs(running=1, started=[Sample(100.5, 0.5)] * 3), 16) == 8
    late = [Sample(100.9, 0.5)] * 9
    assert pacing.look(103.0, Signs(running=1, started=late), 7) == 8


def test_a_baseline_comes_from_requests_that_were_not_disturbed_alone() -> None:
    pacing = Pacing(16)
    pacing.look(0.0, Signs(started=IDLE), 0)
    pacing.look(1.0, Signs(), 5)
    pacing.look(2.0, Signs(started=[Sample(1.5, 9.0)] * 64), 5)
    assert pacing.baseline == pytest.approx(0.1)


def test_a_baseline_that_is_old_is_forgotten() -> None:
    pacing = Pacing(16)
    pacing.look(0.0, Signs(started=IDLE), 0)
    pacing.look(3600.0, Signs(), 0)
    assert pacing.baseline is None


def test_without_a_baseline_it_trickles_until_it_has_one() -> None:
    pacing = Pacing(16)
    for now in range(10):
        pacing.look(float(now), Signs(), pacing.limit)
    assert pacing.limit == 11
    assert pacing.look(10.0, Signs(running=1), 11) == 1
    pacing.look(10.5, Signs(running=1), 0)
    pacing.look(11.0, Signs(running=1, started=[Sample(10.6, 0.1)] * 8), 0)
    assert pacing.baseline == pytest.approx(0.1)


def test_where_no_ttft_can_be_learned_the_queue_alone_decides() -> None:
    pacing = Pacing(16)
    assert pacing.look(0.0, Signs(running=1), 1) == 1
    assert pacing.look(LEARN_S - 1, Signs(running=1), 1) == 1
    assert [pacing.look(LEARN_S + n, Signs(running=1), pacing.limit) for n in range(6)] == [1, 1, 1, 1, 2, 3]
    assert pacing.look(LEARN_S + 6, Signs(running=1, waiting=1), 3) == 1


QUIET = tuple(Answer(-10.0 + n, 0.02) for n in range(8))
"""Eight whole answers before any line ran: a token usually takes 20 ms."""


def answered(came: float, *per_token: float) -> Signs:
    """An interactive lane of whole answers alone."""
    return Signs(running=2, answered=[Answer(came, each) for each in per_token])


def of_wholes(ceiling: int = 16, idle: tuple[Answer, ...] = QUIET) -> Pacing:
    """A pacing that knows how long whole answers take, nothing of streams, and has grown to the ceiling, at 100."""
    pacing, usual = Pacing(ceiling), median(answer.per_token for answer in idle)
    pacing.look(0.0, Signs(answered=idle), 0)
    for n in range(1, 101):
        pacing.look(float(n), answered(n - 0.5, *[usual] * 4), max(1, pacing.limit))
    assert (pacing.limit, pacing.baseline) == (ceiling, None)
    return pacing


@pytest.mark.parametrize(("per_token", "limit"), [(0.02, 16), (0.029, 16), (0.031, 8), (0.2, 8)])
def test_whole_answers_that_take_half_as_long_again_a_token_halve_it(per_token: float, limit: int) -> None:
    """Case H67: a lane without a stream suffers too."""
    assert of_wholes().look(101.0, answered(100.5, *[per_token] * 3), 16) == limit


def test_one_slow_whole_answer_is_no_sign() -> None:
    assert of_wholes().look(101.0, answered(100.5, 0.02, 0.5, 0.02), 16) == 16


def test_whole_answers_whose_times_always_differ_are_judged_by_more_than_chance() -> None:
    pacing = of_wholes(idle=tuple(Answer(-1.0, 0.01 * n) for n in range(1, 9)))
    assert pacing.look(101.0, answered(100.5, *[0.07] * 3), 16) == 16
    assert pacing.look(102.0, answered(101.5, *[0.2] * 5), 16) == 8


def test_whole_answers_from_before_the_last_decrease_do_not_halve_it_again() -> None:
    pacing = of_wholes()
    assert pacing.look(101.0, answered(100.5, *[0.2] * 3), 16) == 8
    assert pacing.look(110.0, answered(100.9, *[0.2] * 9), 7) == 8


def test_what_whole_answers_usually_take_ends_the_learning() -> None:
    pacing = Pacing(16)
    assert pacing.look(0.0, Signs(running=1), 0) == 1
    pacing.look(1.0, Signs(running=1, answered=QUIET), 0)
    assert [pacing.look(1.0 + n, answered(0.8 + n, *[0.02] * 4), 1) for n in range(5)] == [1, 1, 1, 1, 2]


def test_what_whole_answers_take_while_lines_run_is_not_usual() -> None:
    pacing = Pacing(16)
    pacing.look(0.0, Signs(answered=QUIET), 0)
    pacing.look(1.0, Signs(), 5)
    pacing.look(2.0, Signs(answered=[Answer(1.5, 9.0)] * 64), 5)
    assert pacing._wholes.usual == pytest.approx(0.02)


@dataclass
class SharedEngine:
    """Both lanes on one engine: TTFT is 100 ms, and more for each line above `room`. Steps of a quarter second."""

    room: int
    pacing: Pacing
    noise: float = 0.05
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    now: float = 0.0
    lines: float = 0.0
    ttfts: list[float] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def run(self, seconds: float, rate: float) -> None:
        """Interactive requests come `rate` times a second, as a Poisson process; each lasts two seconds."""
        flying: list[Sample] = []
        end = self.now + seconds
        while self.now < end:
            busy = self.pacing.limit
            flying += [Sample(self.now, self._ttft(busy)) for _ in range(self._arrivals(rate / 4))]
            started = [s for s in flying if self.now - 0.25 < s.came + s.ttft <= self.now]
            flying = [sample for sample in flying if sample.came + 2 > self.now]
            self.ttfts += [sample.ttft for sample in started]
            waits = [self.now - sample.came for sample in flying if sample.came + sample.ttft > self.now]
            signs = Signs(running=len(flying), started=started, longest_wait=max(waits, default=0.0))
            self.lines += busy / 4
            self.limits.append(self.pacing.look(self.now, signs, busy))
            self.now += 0.25

    def _ttft(self, busy: int) -> float:
        return 0.1 * (1 + 0.08 * max(0, busy - self.room)) * self.chance.uniform(1 - self.noise, 1 + self.noise)

    def _arrivals(self, mean: float) -> int:
        count, left = 0, self.chance.expovariate(1)
        while left < mean:
            count, left = count + 1, left + self.chance.expovariate(1)
        return count


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


def simulated(room: int, noise: float = 0.05) -> SharedEngine:
    """An engine whose baseline was learned from 64 requests before the batch."""
    engine = SharedEngine(room, Pacing(32), noise)
    engine.pacing.look(0.0, Signs(started=[Sample(n - 64.0, engine._ttft(0)) for n in range(64)]), 0)
    return engine


def test_interactive_requests_hardly_feel_a_batch_and_the_batch_goes_on() -> None:
    """Case H67: five minutes of load: p95 within 20 % of the baseline's, and lines run all the time."""
    engine = simulated(room=8)
    engine.run(300, rate=4)
    assert p95(engine.ttfts) < 1.2 * 0.105
    assert min(engine.limits) >= 1
    assert engine.lines > 300 * 0.4 * 8


def test_few_interactive_requests_are_protected_too() -> None:
    engine = simulated(room=8)
    engine.run(300, rate=1)
    assert p95(engine.ttfts) < 1.3 * 0.105
    assert engine.lines > 300 * 0.5 * 8


def test_in_silence_a_batch_takes_all_there_is() -> None:
    """Case H67."""
    engine = simulated(room=8)
    engine.run(120, rate=4)
    before = engine.lines
    engine.run(120, rate=0)
    assert engine.pacing.limit == 32
    assert engine.lines - before > 2 * before


def test_an_engine_with_room_for_all_is_used_whole() -> None:
    engine = simulated(room=64)
    engine.run(120, rate=4)
    assert engine.pacing.limit == 32


def test_prompts_of_all_lengths_are_no_reason_to_slow_down() -> None:
    engine = simulated(room=64, noise=0.8)
    engine.run(300, rate=4)
    assert sum(engine.limits) / len(engine.limits) > 14


def test_prompts_of_all_lengths_do_not_hide_that_the_lane_suffers() -> None:
    engine = simulated(room=8, noise=0.8)
    engine.run(300, rate=4)
    assert sum(engine.limits) / len(engine.limits) < 16


def test_an_engine_without_room_is_left_to_the_interactive_lane() -> None:
    engine = simulated(room=0)
    engine.run(300, rate=8)
    assert sum(engine.limits) / len(engine.limits) < 4
    assert p95(engine.ttfts) < 1.5 * 0.105


def test_many_failures_in_one_moment_are_one() -> None:
    outage = Outage(first=0.5, most=4.0)
    for _ in range(32):
        outage.failed(10.0)
    assert outage.until == 10.5


def test_a_lane_that_stays_down_is_asked_less_and_less() -> None:
    """Case H69."""
    outage, now, waits = Outage(first=0.5, most=4.0), 0.0, []
    for _ in range(6):
        outage.failed(now)
        waits.append(outage.until - now)
        now = outage.until
    assert waits == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert outage.on
    outage.ended()
    assert not outage.on


def test_what_the_lane_says_itself_counts_within_bounds() -> None:
    outage = Outage(first=0.5, most=4.0)
    outage.failed(0.0, retry_after=3.0)
    assert outage.until == 3.0
    outage.failed(3.0, retry_after=600.0)
    assert outage.until == 7.0


SLOW, QUICK = (0.03, 0.001, 0.0012), (0.008, 0.0001, 0.00002)
"""Engines whose prompts take longer than a step, and no time. Seconds: a step, more for a sequence, for a token."""


def stepping(costs: tuple[float, float, float], rate: float, seconds: float) -> tuple[SteppingEngine, float, float]:
    """An engine that works in steps after a batch beside chat; TTFT P95 of chats alone and beside it."""
    alone = SteppingEngine(Pacing(24), *costs, chance=random.Random(1))
    alone.run(2000, rate, batch=False)
    both = SteppingEngine(Pacing(24), *costs)
    both.run(90 / rate, rate, batch=False)
    both.ttfts.clear()
    both.run(seconds, rate)
    return both, p95(alone.ttfts), p95(both.ttfts)


@pytest.mark.parametrize("rate", [0.7, 1.5])
def test_chats_hardly_feel_lines_whose_prompts_take_as_long_as_theirs(rate: float) -> None:
    """Case H67: one line at a time already harms them there; the batch gets on all the same, and no pause is long."""
    engine, alone, beside = stepping(SLOW, rate, 400)
    assert beside < 1.3 * alone
    assert len(engine.ended) > 300
    assert max(later - sooner for sooner, later in itertools.pairwise(engine.ended)) < 6
    before = len(engine.ended)
    engine.run(60, 0)
    assert (len(engine.ended) - before) / 60 > 3 * before / 400


def test_lines_whose_prompts_are_read_in_no_time_run_in_crowds_beside_chats() -> None:
    engine, alone, beside = stepping(QUICK, 4, 200)
    assert beside < 1.5 * alone
    assert sum(engine.limits) / len(engine.limits) > 4


def test_a_slow_stream_of_long_ago_holds_nothing_back() -> None:
    """Case H67: where no other stream came since, it would be the latest for ever."""
    pacing = grown(16, hold=0.0)
    pacing.look(101.0, Signs(running=4, waiting=1), 16)
    pacing.look(102.0, Signs(running=4, started=[Sample(101.5, 0.5)]), 8)
    assert [pacing.look(now, Signs(running=4), 8) for now in (221.0, 222.0)] == [8, 9]
