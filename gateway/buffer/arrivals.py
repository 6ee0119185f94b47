"""The account of what comes: tokens, the engine's own totals, and the time between two tokens."""

from bisect import bisect_left

from gateway.buffer.endings import Usage
from gateway.telemetry import ITL_BUCKETS, StreamStats


def count_event(stats: StreamStats, tokens: int, usage: Usage, now: float, *, text: bool) -> None:
    """Counts an event that was read: its tokens, the totals so far, and when the first text came."""
    stats.tokens += tokens
    stats.prompt_tokens, stats.completion_tokens = usage.prompt, usage.completion
    if text and stats.first_token_at is None:
        stats.first_token_at = now


def note_arrival(stats: StreamStats, tokens: int, now: float) -> None:
    """Counts the gaps before tokens that came together: as if they had come one by one since the last one."""
    if stats.last_token_at is not None:
        gap = now - stats.last_token_at
        stats.itl[bisect_left(ITL_BUCKETS, gap / tokens)] += tokens
        stats.itl_sum += gap
    stats.last_token_at = now
