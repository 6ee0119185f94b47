"""Input files and uploads, cut and written in any way."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.upload import read_form
from gateway.batch.lines import LineReader, Rules, body_of
from gateway.pacing.pace import Pacing, Signs
from gateway.pacing.streams import Sample

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SPACE = st.sampled_from(["", " ", "\t", "  "])


class Sink:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), JSON, SPACE, st.booleans())
def test_the_body_of_a_line_is_found_wherever_it_stands(
    others: dict[str, Any], body: Any, space: str, ascii_only: bool
) -> None:
    others.pop("body", None)
    members = [(name, json.dumps(value, ensure_ascii=ascii_only)) for name, value in others.items()]
    text = json.dumps(body, ensure_ascii=ascii_only)
    members.insert(len(members) // 2, ("body", text))
    inner = f"{space},{space}".join(f"{json.dumps(name)}{space}:{space}{value}" for name, value in members)
    raw = f"{space}{{{space}{inner}{space}}}{space}\r\n".encode("utf-8", "surrogatepass")
    assert body_of(raw) == text.encode()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=12))
def test_whatever_a_file_holds_it_is_read_or_refused_with_the_lines_that_exist(lines: list[bytes]) -> None:
    reader, start = LineReader(Rules("/v1/chat/completions")), 0
    for line in lines:
        reader.read(line, start)
        start += len(line)
    reader.finish()
    assert reader.problems
    assert all(problem.line is None or 1 <= problem.line <= len(lines) for problem in reader.problems)


@settings(deadline=None)
@given(
    st.binary(max_size=300),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), min_size=1, max_size=20),
)
def test_a_form_reads_the_same_however_it_is_cut(data: bytes, cuts: list[int], filename: str) -> None:
    head = f'--b0und\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'.encode()
    field = b'\r\n--b0und\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b0und--\r\n'
    whole, sink = head + data + field, Sink()

    async def pieces() -> AsyncIterator[bytes]:
        at = 0
        while at < len(whole):
            size = cuts[at % len(cuts)]
            yield whole[at : at + size]
            at += size

    if b"\r\n--b0und" in data:
        return
    form = asyncio.run(read_form("multipart/form-data; boundary=b0und", pieces(), sink))
    assert (sink.data, form.fields, form.filename) == (data, {"purpose": "batch"}, filename)


SAMPLES = st.lists(st.tuples(st.floats(0, 5), st.floats(0.001, 10)), max_size=6)
LOOKS = st.lists(
    st.tuples(st.floats(0.01, 20), st.integers(0, 40), st.integers(0, 5), SAMPLES, st.floats(0, 60), st.booleans()),
    max_size=60,
)


@settings(deadline=None)
@given(st.integers(1, 64), LOOKS)
def test_whatever_is_seen_the_limit_stays_between_a_trickle_and_the_ceiling(
    ceiling: int, looks: list[tuple[float, int, int, list[tuple[float, float]], float, bool]]
) -> None:
    """Case H67: and it grows by one at most, and halves at most."""
    pacing, now = Pacing(ceiling), 0.0
    for gap, running, waiting, samples, wait, crowded in looks:
        now += gap
        before = pacing.limit
        started = [Sample(now - ago, ttft) for ago, ttft in samples]
        signs = Signs(running, waiting, started, wait, crowded)
        limit = pacing.look(now, signs, before)
        assert 1 <= limit <= ceiling
        assert limit <= before + 1
        assert limit == 1 or limit >= before // 2
