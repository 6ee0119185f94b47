"""When streams suffer; how the pacing answers to it is tested with the pacing."""

import pytest

from gateway.pacing.streams import Bounds, Sample, Streams


def judged(*ttfts: float, idle: int = 8) -> Streams:
    """Streams of which some came to an idle engine and took 0.1 s, and others later."""
    streams = Streams(Bounds())
    streams.take([Sample(0.0, 0.1)] * idle, idle_since=0.0, judged_since=1.0)
    streams.take([Sample(1.0, ttft) for ttft in ttfts], idle_since=None, judged_since=1.0)
    return streams


def test_nothing_is_too_long_while_it_is_not_known_what_is_usual() -> None:
    streams = judged(9.0, 9.0, 9.0, idle=7)
    assert (streams.baseline, streams.suffer(9.0), streams.doubtful) == (None, False, False)


@pytest.mark.parametrize(
    ("ttfts", "suffer", "doubtful"),
    [
        ((0.1, 0.1, 0.1), False, False),
        ((0.1, 0.1, 0.5), False, True),
        ((0.1, 0.1, 0.1, 0.1, 0.5, 0.5), True, True),
        ((0.12, 0.12, 0.12), True, False),
        ((0.5, 0.5), False, True),
    ],
)
def test_one_slow_stream_is_doubtful_and_two_or_a_slow_median_are_too_much(
    ttfts: tuple[float, ...], *, suffer: bool, doubtful: bool
) -> None:
    streams = judged(*ttfts)
    assert (streams.suffer(0.0), streams.doubtful) == (suffer, doubtful)


def test_what_came_before_the_last_decrease_and_what_is_old_count_no_more() -> None:
    streams = judged(0.5, 0.5, 0.5)
    streams.take([], idle_since=None, judged_since=2.0)
    assert not streams.suffer(0.0)
    streams.forget(0.5, 0.5)
    assert streams.baseline is None


@pytest.mark.parametrize(("slow", "of", "suffers"), [(1, 8, False), (2, 8, True), (2, 32, False), (3, 32, True)])
def test_a_tail_that_few_of_many_show_is_suffering(slow: int, of: int, suffers: bool) -> None:
    """Case H67: three of 32 are a P95 that is worse, though two of any eight never were."""
    streams = Streams(Bounds())
    streams.take([Sample(n - 100.0, 0.1) for n in range(64)], idle_since=-100.0, judged_since=0.0)
    every = of // slow
    ttfts = [0.2 if n % every == 0 else 0.1 for n in range(of)]
    streams.take([Sample(float(n), ttft) for n, ttft in enumerate(ttfts)], idle_since=None, judged_since=0.0)
    assert streams.suffer(0.0) is suffers


def test_four_slow_ones_of_64_are_suffering_and_one_in_a_hundred_is_not() -> None:
    told = []
    for every in (16, 100):
        streams = Streams(Bounds())
        streams.take([Sample(n - 100.0, 0.1) for n in range(64)], idle_since=-100.0, judged_since=0.0)
        samples = [Sample(float(n), 0.2 if n % every == 5 else 0.1) for n in range(64)]
        streams.take(samples, idle_since=None, judged_since=0.0)
        told.append(streams.suffer(0.0))
    assert told == [True, False]


def test_a_slow_stream_is_forgotten_after_a_while_if_no_other_comes() -> None:
    """Case H67: where only whole answers come, a doubt of long ago holds nothing back."""
    streams = Streams(Bounds())
    streams.take([Sample(0.0, 0.1)] * 8, idle_since=0.0, judged_since=1.0)
    streams.take([Sample(100.0, 0.5)], idle_since=None, judged_since=1.0)
    told = []
    for lately in (99.0, 101.0):
        streams.forget(-1000.0, lately)
        told.append(streams.doubtful)
    assert told == [True, False]
