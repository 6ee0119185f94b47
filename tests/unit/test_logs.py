"""The lines of the log as `key=value`: what structlog's own renderer would write."""

import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from app.logs import FIRST, logfmt
from gateway.telemetry import Outcome

THEIRS = structlog.processors.LogfmtRenderer(key_order=FIRST, bool_as_flag=False)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text('ab "=\\\n\té') | st.just(Outcome.OK)


@given(st.dictionaries(st.sampled_from([*FIRST, "lane", "status", "error", "ttft_ms"]), VALUES))
@settings(max_examples=300)
def test_a_line_is_what_structlog_writes(line: dict[str, object]) -> None:
    assert logfmt(None, "info", dict(line)) == THEIRS(None, "info", dict(line))


def test_time_level_and_event_come_first() -> None:
    line = logfmt(None, "info", {"lane": "chat", "event": "a request", "level": "info", "timestamp": "now"})
    assert line == 'timestamp=now level=info event="a request" lane=chat'
