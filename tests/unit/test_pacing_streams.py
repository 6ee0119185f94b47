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
    streams.forget(0.5)
    assert streams.baseline is None
